// Package peers opens clients of other libraries on the masters of a lock, for the programs and tests of the lab.
package peers

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

// Redigo is a pool of connections to each master.
type Redigo []*redis.Pool

// NewRedigo returns pools that keep so many idle connections each, and have most at a time; 0: any number.
func NewRedigo(addrs []string, idle, most int, options ...redis.DialOption) Redigo {
	var all Redigo
	for _, addr := range addrs {
		all = append(all, &redis.Pool{
			MaxIdle: idle, MaxActive: most, Wait: most > 0, IdleTimeout: 240 * time.Second,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr, options...)
			},
		})
	}
	return all
}

// Timeouts returns the option of a second to connect, and those of a time-out of each command.
func Timeouts(each time.Duration) []redis.DialOption {
	return []redis.DialOption{redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(each), redis.DialWriteTimeout(each)}
}

// Redsync returns redsync on the pools.
func (r Redigo) Redsync() *redsync.Redsync {
	var all []rsredis.Pool
	for _, p := range r {
		all = append(all, rsredigo.NewPool(p))
	}
	return redsync.New(all...)
}

// Close closes the pools.
func (r Redigo) Close() {
	for _, p := range r {
		p.Close()
	}
}
