package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

)

// polls measures the least that clients cost the masters that wait, and show every six seconds that they run: each client has one connection to each
// master, and sends a PING in the place of each poll. So a client that waits costs more, whatever a poll does.
func polls(o *options) error {
	const every, span = 6 * time.Second, 12 * time.Second
	table("clients", "PINGs/s", "CPU of all masters", "CPU of all masters without a PING")
	for _, n := range o.clients {
		f, err := start(5)
		if err != nil {
			return err
		}
		var conns []redis.Conn
		for _, addr := range f.Addrs() {
			for range n {
				conn, err := dialDirect(addr)
				if err != nil {
					return err
				}
				defer conn.Close()
				conns = append(conns, conn)
			}
		}
		time.Sleep(time.Second)
		idle, _, err := spent(f, span)
		if err != nil {
			return err
		}
		end := time.Now().Add(span)
		var wg sync.WaitGroup
		errs := make(chan error, len(conns))
		for i, conn := range conns {
			wg.Go(func() {
				// The clients' polls are spread over the time. A client polls all masters at once.
				time.Sleep(every * time.Duration(i%n) / time.Duration(n))
				for ; time.Now().Before(end); time.Sleep(every) {
					if _, err := conn.Do("PING"); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		busy, _, err := spent(f, span)
		wg.Wait()
		f.Stop()
		select {
		case err = <-errs:
		default:
		}
		if err != nil {
			return err
		}
		percent := func(d time.Duration) string { return fmt.Sprintf("%.1f %% of a core", 100*d.Seconds()/span.Seconds()) }
		row(fmt.Sprint(n), fmt.Sprintf("%.0f", float64(busy.Calls["ping"])/span.Seconds()), percent(busy.CPU), percent(idle.CPU))
	}
	return nil
}

