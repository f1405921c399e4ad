package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A poll has to find out at least what the lock holds and where the claim stands, and to note that its client runs.
var leastPoll = redis.NewScript(2, `
	local held, place, now = redis.call('GET', KEYS[1]), redis.call('ZRANK', KEYS[2], ARGV[1]), redis.call('TIME')
	redis.call('SET', 'limits:note:' .. ARGV[1], now[1] .. now[2], 'PX', 20000)
	return {held, place}`)

// pollEvery is how often a client polls each master in a long queue, in the mean: from 6 to 10 s, by its place.
const pollEvery = 8 * time.Second

// A way is what clients that wait send: nil: nothing.
type way struct {
	name string
	send func(conn redis.Conn, client int) error
}

var ways = []way{
	{"nothing", nil},
	{"PING", func(conn redis.Conn, _ int) error { _, err := conn.Do("PING"); return err }},
	{"the least poll", func(conn redis.Conn, client int) error {
		_, err := leastPoll.Do(conn, "limits", "limits:queue", claimOf(client))
		return err
	}},
}

// polls measures the least that clients that wait cost the masters. Each has a connection to each master, and shows again and again that it
// runs: by a PING, or by the least of all polls.
func polls(o *options) error {
	table("clients", "each sends", "times a second", "CPU of all masters")
	for _, n := range o.clients {
		if err := pollsOf(n); err != nil {
			return err
		}
	}
	return nil
}

func pollsOf(n int) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.Stop()
	conns, err := connectAll(f, n)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	if err != nil {
		return err
	}
	for _, way := range ways {
		const span = 2 * pollEvery
		stop := sendEach(conns, n, way.send)
		used, _, err := spent(f, span)
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
		rate := 0.0
		if way.send != nil {
			rate = float64(len(conns)) / pollEvery.Seconds()
		}
		row(fmt.Sprint(n), way.name, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.1f %% of a core", 100*used.CPU.Seconds()/span.Seconds()))
	}
	return nil
}

func claimOf(i int) string { return fmt.Sprintf("a client of 27 characters, %d", i) }

// connectAll opens a connection of each of n clients to each master. The queue has their claims.
func connectAll(f servers.Fleet, n int) (conns []redis.Conn, err error) {
	for _, addr := range f.Addrs() {
		for i := range n {
			conn, err := dialDirect(addr)
			if err != nil {
				return conns, err
			}
			conns = append(conns, conn)
			if _, err := conn.Do("ZADD", "limits:queue", i, claimOf(i)); err != nil {
				return conns, err
			}
		}
		if _, err := conns[len(conns)-1].Do("SET", "limits", claimOf(0)); err != nil {
			return conns, err
		}
	}
	return conns, nil
}

// sendEach sends something on each connection, again and again, until stop is called, which returns an error. A client sends to all masters at once, and the
// clients one after the other.
func sendEach(conns []redis.Conn, n int, send func(redis.Conn, int) error) (stop func() error) {
	end := make(chan struct{})
	errs := make(chan error, len(conns))
	var wg sync.WaitGroup
	for i, conn := range conns {
		if send == nil {
			break
		}
		wg.Go(func() {
			pause := pollEvery * time.Duration(i%n) / time.Duration(n)
			for {
				select {
				case <-end:
					return
				case <-time.After(pause):
				}
				if err := send(conn, i%n); err != nil {
					errs <- err
					return
				}
				pause = pollEvery
			}
		})
	}
	return func() error {
		close(end)
		wg.Wait()
		close(errs)
		return <-errs
	}
}
