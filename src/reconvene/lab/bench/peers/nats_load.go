// Load on a JetStream stream: nats_load STREAM CONNECTIONS ADDRESS... See store_load.go for what it does and says.
//
// Makes the stream, where it is not there yet: three replicas, in files. A write is done when the stream has
// acknowledged it. It writes through the server that led the stream at the start, and through others should that one
// go. The index of the leader is the number at the end of its server's name.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	makeLimit  = 30 * time.Second
	mostWaits  = 100 * 1000
	askTimeout = 2 * time.Second
)

type jetStream struct {
	stream  string
	streams []nats.JetStreamContext
}

func (j *jetStream) write(ctx context.Context, worker int, what value, batch int) error {
	if batch != 1 {
		return fmt.Errorf("it has no batches")
	}
	ack, err := j.streams[worker%len(j.streams)].PublishAsync(j.stream, what.bytes)
	if err != nil {
		return err
	}
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *jetStream) leader() int {
	info, err := j.streams[0].StreamInfo(j.stream, nats.MaxWait(askTimeout))
	if err != nil || info.Cluster == nil {
		return -1
	}
	place, err := strconv.Atoi(info.Cluster.Leader[strings.LastIndex(info.Cluster.Leader, "-")+1:])
	if err != nil {
		return -1
	}
	return place
}

func main() {
	if len(os.Args) < 4 {
		fail("usage", fmt.Errorf("nats_load STREAM CONNECTIONS ADDRESS..."))
	}
	connections, err := strconv.Atoi(os.Args[2])
	if err != nil || connections < 1 || connections > 1000 {
		fail("connections", fmt.Errorf("%q", os.Args[2]))
	}
	where := &jetStream{stream: os.Args[1]}
	addresses := os.Args[3:]
	where.streams = []nats.JetStreamContext{connect(addresses)}
	where.make()
	if leads := where.leader(); leads >= 0 && leads < len(addresses) {
		addresses[0], addresses[leads] = addresses[leads], addresses[0]
	}
	where.streams = nil
	for len(where.streams) < connections {
		where.streams = append(where.streams, connect(addresses))
	}
	serve(where)
}

// To the first of the addresses that takes it, and, should that one go, to the next.
func connect(addresses []string) nats.JetStreamContext {
	connection, err := nats.Connect(strings.Join(addresses, ","), nats.DontRandomize(), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		fail("connect", err)
	}
	stream, err := connection.JetStream(nats.PublishAsyncMaxPending(mostWaits), nats.MaxWait(askTimeout))
	if err != nil {
		fail("JetStream", err)
	}
	return stream
}

func (j *jetStream) prepare() {}

// The servers need a leader of their own before they make a stream: until then this is refused.
func (j *jetStream) make() {
	deadline := time.Now().Add(makeLimit)
	for {
		_, err := j.streams[0].AddStream(&nats.StreamConfig{Name: j.stream, Subjects: []string{j.stream}, Replicas: 3,
			Storage: nats.FileStorage})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			fail("stream", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
