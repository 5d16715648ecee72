// Load on etcd: etcd_load CONNECTIONS ADDRESS... See store_load.go for what it does and says.
//
// Every write puts a key of its own, so that it is an append: no put replaces another.
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
	number    uint64
	run       int64
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
	for place, address := range e.addresses {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := e.clients[0].Status(ctx, address)
		cancel()
		if err == nil && status.Leader == status.Header.MemberId {
			return place
		}
	}
	return -1
}

func main() {
	if len(os.Args) < 3 {
		fail("usage", fmt.Errorf("etcd_load CONNECTIONS ADDRESS..."))
	}
	connections, err := strconv.Atoi(os.Args[1])
	if err != nil || connections < 1 || connections > 1000 {
		fail("connections", fmt.Errorf("%q", os.Args[1]))
	}
	where := &etcd{addresses: os.Args[2:], run: time.Now().UnixNano()}
	for len(where.clients) < connections {
		client, err := clientv3.New(clientv3.Config{Endpoints: where.addresses, DialTimeout: 10 * time.Second})
		if err != nil {
			fail("connect", err)
		}
		where.clients = append(where.clients, client)
	}
	serve(where)
}
