package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/proxy"
)

// A config has the settings of a run.
type config struct {
	plan
	subject  *subject
	workload string
	program  string        // the executable file of the clients
	dir      string        // for logs and results
	strict   bool          // a violation ends the run, and is a failure
	kept     time.Duration // -lock-keep; negative: drawn
	defect   string        // built into the clients; "" for none
	report   string        // the file of the report; "" for none
	beside   string        // the commit of every second client's program; "" for none

	allBeside bool   // all clients are programs of that commit
	earlier   string // the executable file of these clients

	// entryMost is how long after the last fault each goroutine must have got the lock, and how
	// long unlocking and closing may take.
	entryMost time.Duration
}

// A run is one run of the nemesis.
type run struct {
	config
	fleet   fleet
	clients []*client
	store   *store
	history *history.History
	log     *runLog
	stalls  *stalls
	over    chan struct{} // closed by close

	mu      sync.Mutex     // guards what follows
	done    map[string]int // faults, by kind
	ran     []ran          // the faults that were done, and are done
	skipped int
	stepped int64 // the time of the last subtle fault
	starts  int   // how many clients are being restarted

	// Known when the run is over:
	began, healed, ended int64
	found                []history.Violation
	forever              []history.Violation // lock keys a TTL and 1 s after the clients have ended
}

// newRun starts masters, store, links and clients.
func newRun(c config) (*run, error) {
	out, err := os.Create(filepath.Join(c.dir, "nemesis.log"))
	if err != nil {
		return nil, err
	}
	r := &run{
		config: c, history: history.New(), log: &runLog{began: history.Now(), out: out}, stalls: &stalls{}, over: make(chan struct{}),
		done: make(map[string]int),
	}
	go r.stalls.watch(r.over)
	if r.fleet, err = startFleet(users(c.seed, c.plan.clients, c.ttl)); err != nil {
		return r, err
	}
	rng := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(c.seed, stream)) }
	if r.store, err = newStore(c.ttl, rng(2)); err != nil {
		return r, err
	}
	for i := range c.plan.clients {
		cl, err := r.newClient(i, rng(uint64(100+i)))
		if err != nil {
			return r, err
		}
		r.clients = append(r.clients, cl)
	}
	for _, cl := range r.clients {
		if err := cl.start(); err != nil {
			return r, err
		}
	}
	for _, cl := range r.clients {
		select {
		case <-cl.process().ready:
		case <-cl.process().Gone:
			return r, fmt.Errorf("client %d does not start: see %s", cl.index, cl.stderr.Name())
		case <-time.After(20 * time.Second):
			return r, fmt.Errorf("client %d is not ready after 20 s", cl.index)
		}
	}
	return r, nil
}

// newClient makes a client and its links. Each client has latencies of its own.
func (r *run) newClient(i int, rng *rand.Rand) (*client, error) {
	stderr, err := os.Create(filepath.Join(r.dir, fmt.Sprintf("client-%d.log", i)))
	if err != nil {
		return nil, err
	}
	cl := &client{index: i, program: r.program, stderr: stderr, history: r.history, log: r.log, stalls: r.stalls}
	if r.old(i) {
		cl.program = r.earlier
	}
	far := time.Duration(1+rng.IntN(10)) * time.Millisecond
	latency := func() time.Duration { return time.Duration(rng.Float64() * float64(far)) }
	var addrs []string
	for m, s := range r.fleet {
		up, down := proxy.Way{Latency: latency(), Jitter: far / 4}, proxy.Way{Latency: latency(), Jitter: far / 4}
		keeps := proxy.KeepsNone
		if rng.IntN(2) == 0 {
			keeps = proxy.KeepsIdle
		}
		k, err := proxy.New(s.Addr(), up, down, keeps, r.seed<<16+uint64(10*i+m))
		if err != nil {
			return nil, err
		}
		cl.links = append(cl.links, k)
		addrs = append(addrs, k.Addr())
	}
	cl.job = job{
		setup:   setup{Addrs: addrs, TTL: r.ttl, NodeTimeout: r.ttl / 20, Client: i, Fenced: r.fencesReaders(), Keep: r.keep(i)},
		Subject: r.subject.name, Seed: r.seed, Uses: r.usesOf(i), Store: r.store.addr(),
	}
	if r.subject == ours {
		cl.job.Traits = drawTraits(r.seed, i, r.ttl)
		if r.workload == semaphores {
			cl.job.Traits = permitTraits(cl.job.Traits, rng)
		}
		r.log.printf("client %d: %v", i, cl.job.Traits)
		if r.old(i) {
			r.log.printf("client %d: the program of %s", i, r.beside)
		}
	}
	return cl, nil
}

// keep returns the Keep of a client: that of the plan, which half of the plans have, but for the client before the last.
func (c config) keep(client int) time.Duration {
	rng := rand.New(rand.NewPCG(c.seed, 3))
	switch {
	case client == 3:
		return 0
	case c.kept >= 0:
		return c.kept
	case rng.IntN(2) == 0:
		return 0
	}
	return time.Duration([]int{1, 3, 20}[rng.IntN(3)]) * c.ttl
}

// close ends everything.
func (r *run) close() {
	close(r.over)
	for _, cl := range r.clients {
		if cl.process() != nil {
			cl.end(true, 0)
		}
		for _, k := range cl.links {
			k.Close()
		}
		cl.stderr.Close()
	}
	if r.store != nil {
		r.store.close()
	}
	r.fleet.stop()
}

// play does the faults of the schedule, and returns when all are over. It returns earlier if ctx
// ends, or if the run is strict and there is a violation.
func (r *run) play(ctx context.Context, faults []fault) {
	r.began = history.Now()
	var all sync.WaitGroup
	defer all.Wait()
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	end := time.NewTimer(r.length)
	defer end.Stop()
	for {
		var next <-chan time.Time
		if len(faults) > 0 {
			next = time.After(faults[0].at - time.Duration(history.Now()-r.began))
		}
		select {
		case <-next:
			f := faults[0]
			faults = faults[1:]
			all.Go(func() { r.do(f) })
		case <-watch.C:
			if r.strict && r.look() {
				return
			}
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// do does one fault.
func (r *run) do(f fault) {
	r.log.printf("%v", f)
	r.mu.Lock()
	i := len(r.ran)
	r.ran = append(r.ran, ran{f, history.Span{From: history.Now()}})
	r.mu.Unlock()
	err := f.kind.do(r, f)
	r.mu.Lock()
	r.ran[i].during.To = history.Now()
	switch {
	case err == nil:
		r.done[f.kind.name]++
	case errors.Is(err, errSkipped):
		r.skipped++
	}
	r.mu.Unlock()
	if err != nil {
		r.log.printf("%s: %v", f.kind.name, err)
	} else if f.length > 0 {
		r.log.printf("%s of %.3fs is over", f.kind.name, f.at.Seconds())
	}
}

// errSkipped means that a fault was not done, because an earlier one took longer than planned.
var errSkipped = errors.New("skipped")

// look makes the checks that are possible while the run goes on, and reports whether there is a
// violation.
func (r *run) look() bool {
	var found []history.Violation
	ops := r.history.Snapshot()
	found = append(found, r.judgePermits(ops)...)
	byName := history.PerName(r.bySlot(ops))
	for _, n := range r.checked() {
		ops := byName[n.Name]
		all, _ := history.Overlaps(ops)
		found = append(found, all...)
		found = append(found, r.fencesWrong(n, ops)...)
	}
	found = append(found, r.crashes()...)
	return len(found) > 0
}

// crashes returns the clients that have ended by themselves.
func (r *run) crashes() (all []history.Violation) {
	for _, cl := range r.clients {
		p := cl.process()
		if isClosed(p.Gone) && p.crashed {
			all = append(all, history.Violation{Kind: crashed, Text: fmt.Sprintf("client %d has ended by itself: %v\nnobody has killed it: see its log", cl.index, p.Err)})
		}
	}
	return all
}

// heal ends all faults, checks that all masters answer, and tells the clients.
func (r *run) heal() error {
	var errs []error
	for _, cl := range r.clients {
		for _, k := range cl.links {
			k.Mend()
		}
	}
	for i, s := range r.fleet {
		if _, err := s.Do("PING"); err != nil {
			errs = append(errs, fmt.Errorf("master %d after all faults: %w", i, err))
		}
	}
	for _, cl := range r.clients {
		cl.order(orderCalm)
	}
	r.healed = history.Now()
	r.log.printf("all faults are over")
	return errors.Join(errs...)
}

// everybodyEnters waits until each goroutine has got the lock after the faults. It returns a
// violation for each that has not within entryMost.
func (r *run) everybodyEnters(ctx context.Context) (all []history.Violation) {
	for {
		missing := r.missing()
		if len(missing) == 0 {
			r.log.printf("everybody has entered")
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		at := history.Now()
		if _, stalled := r.stalls.during(history.Span{From: r.healed, To: at}); time.Duration(at-r.healed)-stalled < r.entryMost {
			continue
		}
		for _, g := range missing {
			all = append(all, history.Violation{Kind: stuckWait, At: at, Text: fmt.Sprintf("goroutine %s has not entered within %v of the end of all faults", g, r.entryMost)})
		}
		return all
	}
}

// missing returns the goroutines that have not got the lock since the faults ended.
func (r *run) missing() []string {
	in := make(map[string]bool)
	for _, o := range r.history.Snapshot() {
		if o.Entered > r.healed {
			in[o.Goroutine()] = true
		}
	}
	var missing []string
	for _, cl := range r.clients {
		for i, u := range r.uses() {
			for g := range u.Goroutines {
				if id := fmt.Sprintf("%d.%d.%d", cl.index, cl.process().life, 10*i+g); !in[id] {
					missing = append(missing, id)
				}
			}
		}
	}
	return missing
}

// notRunning returns how long a client did not run during a span.
func (r *run) notRunning(client int, s history.Span) int64 {
	stalls, _ := r.stalls.during(s)
	return history.Covered(s, append(stalls, r.clients[client].stopped()...))
}

// stop tells all clients to unlock and close. It returns a violation for each that does not.
func (r *run) stop() (all []history.Violation) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, cl := range r.clients {
		wg.Go(func() {
			if cl.end(false, r.entryMost) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, history.Violation{Kind: stuckWait, At: history.Now(), Text: fmt.Sprintf("client %d does not unlock and close within %v", cl.index, r.entryMost)})
			}
		})
	}
	wg.Wait()
	r.ended = history.Now()
	slices.SortFunc(all, func(a, b history.Violation) int { return cmp.Compare(a.Text, b.Text) })
	return all
}
