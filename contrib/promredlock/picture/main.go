// Command picture draws the panels of the dashboard as an SVG, from the metrics of a run of its own: three clients on
// five redis-server processes, of which some are frozen and killed on the way. It evaluates the expressions of the
// dashboard itself, so it shows what the dashboard asks for. It is not a picture made by Grafana.
//
//	go run ./picture > dashboard.svg    # takes two minutes, and needs redis-server
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/promredlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// How long the run takes, and what happens in it.
const (
	runTime    = 120 * time.Second
	freezeTime = 30 * time.Second // one master is frozen
	thawTime   = 50 * time.Second
	killTime   = 70 * time.Second // three masters are killed, which is a majority
	backTime   = 85 * time.Second // and come back without their data
)

func main() {
	dashboard, err := readDashboard("dashboard.json")
	if err != nil {
		log.Fatal(err)
	}
	samples, err := record()
	if err != nil {
		log.Fatal(err)
	}
	if err := draw(os.Stdout, dashboard, samples); err != nil {
		log.Fatal(err)
	}
}

// A dashboard is the part of dashboard.json that is drawn.
type dashboard struct {
	Panels []struct {
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(file string) (d dashboard, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

// record runs clients and masters, and gathers the metrics once a second.
func record() (samples []sample, err error) {
	var servers []*redisserver.Server
	var masters []string
	for range 5 {
		s, err := redisserver.Start()
		if err != nil {
			return nil, err
		}
		defer s.Stop()
		if err := s.Adopt(); err != nil {
			return nil, err
		}
		servers, masters = append(servers, s), append(masters, s.Addr())
	}
	registry := prometheus.NewRegistry()
	metrics := promredlock.New(nil)
	registry.MustRegister(metrics)
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 {
		client, err := redlock.Open(masters, &redlock.Options{Trace: metrics.Trace(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		defer client.Close()
		metrics.Watch(client)
		for i := range 4 {
			wg.Go(func() { work(ctx, client, fmt.Sprintf("order:%d", i)) })
		}
		wg.Go(func() { hold(ctx, client) })
	}
	wg.Go(func() { spoil(ctx, servers) })
	for tick := time.NewTicker(time.Second); ; {
		families, err := registry.Gather()
		if err != nil {
			return nil, err
		}
		samples = append(samples, flatten(families))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return samples, nil
		}
	}
}

// work takes a lock that another client may hold, again and again.
func work(ctx context.Context, client *redlock.Client, name string) {
	for ctx.Err() == nil {
		brief, cancel := context.WithTimeout(ctx, time.Second)
		client.Locker(name).Do(brief, func(context.Context) error { return pause(ctx, 20) })
		cancel()
		pause(ctx, 40)
	}
}

// hold keeps a lock of its own for long, so that its lease is renewed.
func hold(ctx context.Context, client *redlock.Client) {
	lock := client.Locker(fmt.Sprintf("long:%d", rand.Int()))
	for ctx.Err() == nil {
		lock.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}
}

// pause waits for up to twice some milliseconds.
func pause(ctx context.Context, ms int) error {
	select {
	case <-time.After(time.Duration(rand.IntN(2*ms)) * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

// spoil freezes and kills masters.
func spoil(ctx context.Context, servers []*redisserver.Server) {
	began := time.Now()
	for _, step := range []struct {
		at   time.Duration
		what func() error
	}{
		{freezeTime, servers[0].Freeze},
		{thawTime, servers[0].Thaw},
		{killTime, func() error {
			for _, s := range servers[:3] {
				if err := s.Kill(); err != nil {
					return err
				}
			}
			return nil
		}},
		{backTime, func() error {
			for _, s := range servers[:3] {
				if err := s.Restart(); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		select {
		case <-time.After(time.Until(began.Add(step.at))):
		case <-ctx.Done():
			return
		}
		if err := step.what(); err != nil {
			log.Print(err)
		}
	}
}
