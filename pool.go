package redlock

import (
	"context"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// newPool returns a pool that dials the master at u. A Client borrows two connections from it. No other code
// uses the pool.
func newPool(u masterurl.URL, opts *Options) *redis.Pool {
	return &redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return u.Dial(ctx, opts.TLSConfig) // the Client bounds ctx by DialTimeout
		},
		MaxIdle: 2,
	}
}

// BoundReplies returns a connection that reads from and writes to conn, and that limits the size of Redis
// replies. A reply that is larger than any that a Client asks for makes Read fail. The limits are 1 MiB of
// text, 65536 elements of arrays, and 8 levels of arrays. Use it in the dial functions of the pools that are
// passed to New:
//
//	redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
//		conn, err := dialer.DialContext(ctx, network, address)
//		if err != nil {
//			return nil, err
//		}
//		return redlock.BoundReplies(conn), nil
//	})
//
// Redigo allocates as much memory as a server announces. Without BoundReplies, a broken or hostile server can
// end the process. With TLS, conn is the *tls.Conn. The connections of Open are limited already.
func BoundReplies(conn net.Conn) net.Conn { return redisconn.Bounded(conn) }

// checkPools returns an error if a pool cannot be used.
func checkPools(pools []*redis.Pool) error {
	seen := make(map[*redis.Pool]int)
	for i, p := range pools {
		switch first, twice := seen[p]; {
		case p == nil:
			return fmt.Errorf("redlock: New: pool %d is nil", i+1)
		case twice:
			return fmt.Errorf("redlock: New: pools %d and %d are the same; each master needs its own", first+1, i+1)
		case p.Dial == nil && p.DialContext == nil:
			return fmt.Errorf("redlock: New: pool %d has neither Dial nor DialContext", i+1)
		case p.MaxActive == 1:
			return fmt.Errorf("redlock: New: pool %d has a MaxActive of 1; a client needs two connections to each master", i+1)
		}
		seen[p] = i
	}
	return nil
}
