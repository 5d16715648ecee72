// Load on etcd: etcd_load CONNECTIONS ADDRESS... See store_load.go for what it does and says.
//
// Every write puts a key of its own, so that it is an append: no put replaces another. It writes to the member that
// leads, which saves the others the forwarding.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
)

type etcd struct {
	addresses []string
	clients   []*clientv3.Client
	target    int // index of the address that it writes to; -1: all of them
	number    uint64
	run       int64
}

const askLimit = 500 * time.Millisecond

func (e *etcd) prepare() {
	leads := e.leader()
	if leads < 0 || leads == e.target {
		return
	}
	e.target = leads
	for _, client := range e.clients {
		client.SetEndpoints(e.addresses[leads])
	}
}

func (e *etcd) key() string { return fmt.Sprintf("%x-%012x", e.run, atomic.AddUint64(&e.number, 1)) }

func (e *etcd) write(ctx context.Context, worker int, what value, batch int) error {
	client := e.clients[worker%len(e.clients)]
	if batch == 1 {
		_, err := client.Put(ctx, e.key(), what.text)
		return err
	}
	puts := make([]clientv3.Op, batch)
	for place := range puts {
		puts[place] = clientv3.OpPut(e.key(), what.text)
	}
	_, err := client.Txn(ctx).Then(puts...).Commit()
	return err
}

func (e *etcd) leader() int {
	// The one that led last is asked first: others may be gone, and are then waited for.
	if e.target >= 0 && e.leads(e.target) {
		return e.target
	}
	for place := range e.addresses {
		if place != e.target && e.leads(place) {
			return place
		}
	}
	return -1
}

func (e *etcd) leads(place int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	status, err := e.clients[0].Status(ctx, e.addresses[place])
	return err == nil && status.Leader == status.Header.MemberId
}

func main() {
	if len(os.Args) < 3 {
		fail("usage", fmt.Errorf("etcd_load CONNECTIONS ADDRESS..."))
	}
	connections, err := strconv.Atoi(os.Args[1])
	if err != nil || connections < 1 || connections > 1000 {
		fail("connections", fmt.Errorf("%q", os.Args[1]))
	}
	where := &etcd{addresses: os.Args[2:], target: -1, run: time.Now().UnixNano()}
	for len(where.clients) < connections {
		client, err := clientv3.New(clientv3.Config{Endpoints: where.addresses, DialTimeout: 10 * time.Second})
		if err != nil {
			fail("connect", err)
		}
		where.clients = append(where.clients, client)
	}
	serve(where)
}
