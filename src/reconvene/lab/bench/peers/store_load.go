// Load on a replicated store through its Go client: what the loads of etcd and NATS have in common.
//
// Tells {"ready": true} on stdout once it is connected, then takes orders, a line each, from stdin, and answers each
// with one JSON line:
//
//	throughput BYTES OUTSTANDING BATCH WARM_MS RUN_MS   writes with so many requests outstanding, each of BATCH writes:
//	                                                    {"writes": n, "seconds": s, "failed": n, "error": text}
//	latency BYTES COUNT                                 one at a time: {"took": [ns, ...]}
//	attempt BYTES COUNT SECONDS                         one at a time, until so many were accepted or the time is up:
//	                                                    {"accepted": n, "refused": n, "error": text, "after": s}, the
//	                                                    last two of the first refusal
//	leader                                              {"leader": index of its address}; -1 where there is none
//
// It ends when stdin does, so it never outlives who started it. Errors of its own: one line on stderr, exit 1.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What is written: the same bytes in the two forms that clients take.
type value struct {
	bytes []byte
	text  string
}

type store interface {
	// Called before an order that writes: connects to whoever is best written to now.
	prepare()
	// Returns when the store has said that the writes of this request are done. Called by many at once.
	write(ctx context.Context, worker int, what value, batch int) error
	leader() int
}

const (
	mostBytes    = 1 << 20
	mostCount    = 10 * 1000 * 1000
	requestLimit = 20 * time.Second
	afterFailure = 10 * time.Millisecond // a store that refuses at once is not asked in a tight loop
)

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "load: %s: %v\n", what, err)
	os.Exit(1)
}

func tell(answer map[string]interface{}) {
	line, err := json.Marshal(answer)
	if err != nil {
		fail("answer", err)
	}
	fmt.Println(string(line))
}

func serve(where store) {
	tell(map[string]interface{}{"ready": true})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		numbers := make([]int, 0, 5)
		for _, word := range words[1:] {
			number, err := strconv.Atoi(word)
			if err != nil || number < 0 || number > mostCount {
				fail("order", fmt.Errorf("%q", lines.Text()))
			}
			numbers = append(numbers, number)
		}
		if len(numbers) > 0 && numbers[0] > mostBytes {
			fail("order", fmt.Errorf("%d bytes", numbers[0]))
		}
		if words[0] != "leader" {
			where.prepare()
		}
		switch {
		case words[0] == "throughput" && len(numbers) == 5:
			throughput(where, numbers[0], numbers[1], numbers[2], millis(numbers[3]), millis(numbers[4]))
		case words[0] == "latency" && len(numbers) == 2:
			latency(where, numbers[0], numbers[1])
		case words[0] == "attempt" && len(numbers) == 3:
			attempt(where, numbers[0], numbers[1], time.Duration(numbers[2])*time.Second)
		case words[0] == "leader":
			tell(map[string]interface{}{"leader": where.leader()})
		default:
			fail("order", fmt.Errorf("%q", lines.Text()))
		}
	}
}

func millis(count int) time.Duration { return time.Duration(count) * time.Millisecond }

// Bytes that do not compress.
func valueOf(size int) value {
	bytes := make([]byte, size)
	rand.Read(bytes)
	return value{bytes, string(bytes)}
}

func throughput(where store, size, outstanding, batch int, warm, run time.Duration) {
	what := valueOf(size)
	var done, failed int64
	var stop int32
	var said atomic.Value
	said.Store("")
	var workers sync.WaitGroup
	for worker := 0; worker < outstanding; worker++ {
		workers.Add(1)
		go func(worker int) {
			defer workers.Done()
			for atomic.LoadInt32(&stop) == 0 {
				ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
				err := where.write(ctx, worker, what, batch)
				cancel()
				if err != nil {
					atomic.AddInt64(&failed, 1)
					said.Store(err.Error())
					time.Sleep(afterFailure)
					continue
				}
				atomic.AddInt64(&done, int64(batch))
			}
		}(worker)
	}
	time.Sleep(warm)
	before, began := atomic.LoadInt64(&done), time.Now()
	time.Sleep(run)
	writes, seconds := atomic.LoadInt64(&done)-before, time.Since(began).Seconds()
	atomic.StoreInt32(&stop, 1)
	workers.Wait()
	tell(map[string]interface{}{"writes": writes, "seconds": seconds, "failed": failed, "error": said.Load()})
}

func latency(where store, size, count int) {
	what := valueOf(size)
	took := make([]int64, count)
	for place := range took {
		ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
		began := time.Now()
		if err := where.write(ctx, 0, what, 1); err != nil {
			fail("latency", err)
		}
		took[place] = time.Since(began).Nanoseconds()
		cancel()
	}
	tell(map[string]interface{}{"took": took})
}

func attempt(where store, size, count int, limit time.Duration) {
	what := valueOf(size)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	accepted, refused, said, after := 0, 0, "", 0.0
	for accepted < count && ctx.Err() == nil {
		began := time.Now()
		err := where.write(ctx, 0, what, 1)
		if err == nil {
			accepted++
		} else if ctx.Err() == nil {
			if refused == 0 {
				said, after = err.Error(), time.Since(began).Seconds()
			}
			refused++
			time.Sleep(afterFailure)
		}
	}
	tell(map[string]interface{}{"accepted": accepted, "refused": refused, "error": said, "after": after})
}
