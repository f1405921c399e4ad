package redlock

import (
	"context"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// Open returns a Client of the masters at urls. Each URL is redis:// or rediss:// (with TLS) followed by
// [user:password@]host[:port][/database], or unix:// followed by [user:password@]/path[?db=database], or a
// plain host:port. Spaces around a URL do not count. Five masters are usual. A majority must answer to acquire a lock.
//
// Like sql.Open, Open does not wait for connections. It returns an error only for invalid arguments, such as
// the same address twice. Masters are dialled in the background, and again after failures. Ping reports
// whether enough of them are connected.
func Open(urls []string, opts *Options) (*Client, error) {
	targets, err := masterurl.ParseList(urls)
	if err != nil {
		return nil, fmt.Errorf("redlock: Open: %w", err)
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if len(o.Names) == 0 {
		o.Names = make([]string, len(targets))
		for i, t := range targets {
			o.Names[i] = t.Address()
		}
	}
	valid, err := o.withDefaults(len(urls))
	if err != nil {
		return nil, err
	}
	pools := make([]*redis.Pool, len(targets))
	for i, t := range targets {
		pools[i] = newPool(t, valid)
	}
	c, err := newClient(pools, valid)
	if err != nil {
		return nil, err
	}
	c.pools = pools
	return c, nil
}

// New returns a Client with one redigo pool per master. Close leaves the pools open. The Client keeps up to
// two connections of each pool, so MaxActive must not be 1. A pool should set DialContext rather than Dial,
// which cannot be interrupted.
//
// A pool may be shared with other code. Locks are kept in the database that new connections of the pool use.
// If other code has selected another database on a borrowed connection, the Client sends SELECT. Its user
// must then be allowed to run SELECT. Redis before 6.2 does not report which database a connection uses. With
// such a version, do not share a pool with code that sends SELECT. Between New and the first connection of the
// Client to a master, no other code may send SELECT on the pool of that master: the Client would take that
// database for the one of new connections. Until then, the state of the master in Client.Masters is
// MasterConnecting.
//
// A broken or hostile server can send a reply that exhausts the memory. The connections of Open reject such
// replies. The connections of the caller's pools do so if their dial function uses BoundReplies.
//
// Like Open, New does not wait for connections.
func New(masters []*redis.Pool, opts *Options) (*Client, error) {
	if err := checkPools(masters); err != nil {
		return nil, err
	}
	valid, err := opts.withDefaults(len(masters))
	if err != nil {
		return nil, err
	}
	return newClient(masters, valid)
}

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
//
// On Linux, with amd64 or arm64, a *net.TCPConn or *net.UnixConn is then read and written by cheaper system calls. They save a process that
// waits for locks up to half of its CPU time.
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
