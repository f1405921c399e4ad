package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// makeFlights: all call SingleFlight for one name, in processes that are stopped, cut off, and lose connections, on masters that
// fail and restart. In a third of the runs keys are deleted by hand.
func makeFlights(m *maker) {
	m.options(time.Second, 2*time.Second, 10*time.Second)
	m.wakeups, m.lock.Fencing = true, m.one(4)
	m.processesOf(load{
		processes: [2]int{3, 5}, workers: [2]int{1, 2}, calls: [2]int{4, 7}, names: 1,
		think: 40 * time.Millisecond, hold: 30 * time.Millisecond, long: 30,
	})
	for _, p := range m.processes {
		for _, calls := range p.workers {
			for i := range calls {
				calls[i].kind = callFlight
			}
		}
	}
	const window = 2 * time.Second
	m.faultsOfAllKinds(m.IntN(6), window)
	if m.one(3) {
		for range 1 + m.IntN(10) {
			m.add(fault{kind: eraseKey, at: m.between(0, window), masters: m.someMasters(1 + m.IntN(m.masters)), process: -1})
		}
	}
}

// flights are the functions that calls of SingleFlight have called in a run. They return the number of their beginning.
type flights struct {
	mu      sync.Mutex // guards what follows
	began   []time.Time
	running []context.Context
	shared  int
}

// fly calls SingleFlight.
func (t *turn) fly() {
	r := t.process.run
	ctx, cancel := context.Background(), func() {}
	if t.call.within > 0 {
		ctx, cancel = context.WithTimeout(ctx, t.call.within)
	}
	defer cancel()
	t.began = time.Now()
	text, shared, err := t.life.client.SingleFlight(ctx, t.call.name, t.flight)
	r.history.note("%s: SingleFlight = %q, %v, %v", t.name, text, shared, err)
	switch {
	case t.life.gone() || r.stopped():
	case err == nil:
		t.landed(string(text), shared)
	case errors.Is(err, redlock.ErrLost) || ctx.Err() != nil && errors.Is(err, ctx.Err()):
	default:
		t.fail("errors", "SingleFlight = %v", err)
	}
}

// flight is the function of a call.
func (t *turn) flight(ctx context.Context) ([]byte, error) {
	r := t.process.run
	fs := &r.flights
	fs.mu.Lock()
	for _, other := range fs.running {
		if other.Err() == nil && !r.plan.erases() {
			t.fail("one holder", "two functions run")
		}
	}
	n := len(fs.began)
	fs.began, fs.running = append(fs.began, time.Now()), append(fs.running, ctx)
	fs.mu.Unlock()
	r.history.note("%s calls function %d", t.name, n)
	timer := time.NewTimer(t.call.hold + 1)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-t.life.ended:
	case <-r.stop:
	}
	t.process.awake(t.life)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.running = without(fs.running, ctx)
	return strconv.AppendInt(nil, int64(n), 10), context.Cause(ctx)
}

// landed checks a value: its function began after the call.
func (t *turn) landed(text string, shared bool) {
	fs := &t.process.run.flights
	n, err := strconv.Atoi(text)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case err != nil || n >= len(fs.began):
		t.fail("values", "SingleFlight = %q", text)
	case fs.began[n].Before(t.began):
		t.fail("values", "SingleFlight = %q, shared %v, of a function that began %v before the call", text, shared, t.began.Sub(fs.began[n]))
	}
	if shared {
		fs.shared++
	}
}

// erases reports whether keys are deleted by hand.
func (p *plan) erases() bool {
	for _, f := range p.faults {
		if f.kind == eraseKey {
			return true
		}
	}
	return false
}

// TestFlights runs a few seeds of the profile flights. More:
//
//	go test ./internal/simulation -run 'TestSeeds$' -v -args -profile flights -seeds 200
func TestFlights(t *testing.T) {
	p := &profile{}
	for _, other := range turnsProfiles {
		if other.name == "flights" {
			p = other
		}
	}
	calls, shared := 0, 0
	for seed := range uint64(4) {
		o := simulate(t, makePlanOf(seed, p))
		if o.failed() {
			t.Errorf("%v\n%s -profile %s", o.violations[0], command(o.plan, nil), p.name)
		}
		calls, shared = calls+o.flights.calls, shared+o.flights.shared
	}
	if shared < calls/10 {
		t.Errorf("%d functions were called, and %d values shared; these runs show little", calls, shared)
	}
}

// A flightCount is how many functions were called in a run, and how many values shared.
type flightCount struct{ calls, shared int }

func (fs *flights) count() flightCount { return flightCount{len(fs.began), fs.shared} }

func (n flightCount) String() string {
	return fmt.Sprintf("%d functions, %d values shared", n.calls, n.shared)
}
