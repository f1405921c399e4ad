// Command pools uses redlock with redigo pools that other code uses as well.
//
//	pools a:6379 b:6379 c:6379
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
)

func main() {
	var pools []*redis.Pool
	for _, addr := range os.Args[1:] {
		pools = append(pools, newPool(addr))
	}
	if err := run(pools, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// newPool returns a pool as redlock needs it: its connections have time limits, and replies have bounds.
func newPool(addr string) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 4, // MaxActive must allow two connections for redlock, and those of other code
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr,
				redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second), // for other code
				redis.DialContextFunc(dialBounded))
		},
	}
}

// dialBounded connects. A reply that is larger than redlock can need ends the connection. Leave BoundReplies out if
// other code reads replies of more than 1 MiB.
func dialBounded(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return redlock.BoundReplies(conn), nil
}

// run counts visits under a lock. The count is in the first master, which is a Redis server like any other.
func run(pools []*redis.Pool, names []string) error {
	client, err := redlock.New(pools, &redlock.Options{
		Names:  names,    // of the masters, in errors and logs
		Prefix: "locks:", // so that no other key is a lock's
	})
	if err != nil {
		return err
	}
	defer client.Close() // leaves the pools open
	return client.Locker("visits").Do(context.Background(), func(ctx context.Context) error {
		conn, err := pools[0].GetContext(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		n, err := redis.Int(conn.Do("INCR", "visits"))
		if err != nil {
			return err
		}
		fmt.Println("visit", n)
		return nil
	})
}
