// Locks of etcd by its concurrency package: etcd_locks TTL_SECONDS ADDRESS...
//
// One session, with a lease of so many seconds, or the shortest that the server grants. Tells {"ready": true} on stdout
// once it has the session, then takes orders, a line each, from stdin, and answers each with one JSON line:
//
//	latency NAME COUNT   acquires and releases it so often: {"took": [ns, ...]}
//	take NAME            acquires it, and keeps it: {"got": NAME}
//	drop NAME            releases it: {"dropped": NAME}
//
// It ends when stdin does. Errors of its own: one line on stderr, exit 1. Compiled with store_load.go.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

func main() {
	if len(os.Args) < 3 {
		fail("usage", fmt.Errorf("etcd_locks TTL_SECONDS ADDRESS..."))
	}
	ttl, err := strconv.Atoi(os.Args[1])
	if err != nil || ttl < 1 {
		fail("lease", fmt.Errorf("%q", os.Args[1]))
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: os.Args[2:], DialTimeout: 10 * time.Second})
	if err != nil {
		fail("connect", err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		fail("session", err)
	}
	tell(map[string]interface{}{"ready": true})
	ctx := context.Background()
	held := map[string]*concurrency.Mutex{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 3 && words[0] == "latency":
			count, err := strconv.Atoi(words[2])
			if err != nil || count < 1 || count > mostCount {
				fail("order", fmt.Errorf("%q", lines.Text()))
			}
			took := make([]int64, count)
			for place := range took {
				began := time.Now()
				mutex := concurrency.NewMutex(session, "/locks/"+words[1])
				if err := mutex.Lock(ctx); err != nil {
					fail("lock", err)
				}
				if err := mutex.Unlock(ctx); err != nil {
					fail("unlock", err)
				}
				took[place] = time.Since(began).Nanoseconds()
			}
			tell(map[string]interface{}{"took": took})
		case len(words) == 2 && words[0] == "take":
			mutex := concurrency.NewMutex(session, "/locks/"+words[1])
			if err := mutex.Lock(ctx); err != nil {
				fail("lock", err)
			}
			held[words[1]] = mutex
			tell(map[string]interface{}{"got": words[1]})
		case len(words) == 2 && words[0] == "drop" && held[words[1]] != nil:
			if err := held[words[1]].Unlock(ctx); err != nil {
				fail("unlock", err)
			}
			delete(held, words[1])
			tell(map[string]interface{}{"dropped": words[1]})
		default:
			fail("order", fmt.Errorf("%q", lines.Text()))
		}
	}
}
