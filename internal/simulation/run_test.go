package simulation

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/redlocktest"
)

// A run carries out a plan.
type run struct {
	plan    *plan
	begun   time.Time
	masters *redlocktest.Masters
	states  []*masterState // by master
	procs   []*process
	judge   *judge
	history *history
	flights flights       // see profile_flights_test.go
	traces  []*trace      // by master
	stop    chan struct{} // closed when the run shall end early

	stopOnce sync.Once
	faults   sync.WaitGroup // each fault, until it is over
	workers  sync.WaitGroup // each goroutine of a process
	closes   sync.WaitGroup // each Client's Close

	mu    sync.Mutex // guards what follows
	lives []*life    // all of them
}

// An outcome is the result of a run.
type outcome struct {
	plan       *plan
	violations []violation
	history    *history
	figures    figures
	flights    flightCount
}

func (o *outcome) failed() bool { return len(o.violations) > 0 }

// A violation is a broken property.
type violation struct {
	at   time.Duration
	kind string // the property
	text string
}

func (v violation) String() string { return fmt.Sprintf("%v: %s: %s", ms(v.at), v.kind, v.text) }

// execute carries out a plan in the calling bubble.
func execute(t *testing.T, p *plan) *outcome {
	r := &run{plan: p, begun: time.Now(), masters: redlocktest.StartN(t, p.servers()), stop: make(chan struct{})}
	r.history = &history{begun: r.begun}
	r.judge = newJudge(r)
	r.observe()
	for range p.masters {
		r.states = append(r.states, &masterState{})
	}
	for i, plan := range p.processes {
		proc := &process{run: r, index: i, plan: plan, changed: make(chan struct{})}
		r.procs = append(r.procs, proc)
		if !plan.absent {
			proc.start()
		}
	}
	for _, f := range p.faults {
		r.faults.Go(func() { r.commit(f) })
	}
	for _, proc := range r.procs {
		for j, calls := range proc.plan.workers {
			w := &worker{process: proc, name: fmt.Sprintf("%v goroutine %d", proc, j), calls: calls}
			r.workers.Go(w.work)
		}
	}
	if p.slow.hung {
		r.faults.Go(func() {
			r.sleep(hungFrom)
			defer r.judge.trouble([]int{p.slow.master}, true)()
			r.masters.Master(p.slow.master).Freeze()
			r.sleep(p.busyUntil)
			r.masters.Master(p.slow.master).Thaw()
		})
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.judge.watch()
	}()
	r.finish(watched)
	figures := r.judge.figures
	figures.explained, figures.unspecified = r.explained()
	figures.profile, figures.faults = p.profile.name, len(p.faults)
	return &outcome{plan: p, violations: r.judge.violations, history: r.history, figures: figures, flights: r.flights.count()}
}

// finish waits for the end of all calls, and checks what they leave behind.
func (r *run) finish(watched chan struct{}) {
	r.faults.Wait()
	r.history.note("all faults are over")
	r.await("every goroutine gets in after the faults", &r.workers, r.patience())
	r.checkKeys()
	r.checkPermits()
	r.judge.figures.took = time.Since(r.begun)
	r.halt()
	<-watched
	for _, p := range r.procs {
		p.shut()
	}
	r.closes.Wait()
	r.workers.Wait()
	for _, l := range r.lives {
		for _, link := range l.links {
			link.shutdown()
		}
		for _, pool := range l.pools {
			pool.Close()
		}
	}
	synctest.Wait()
	r.checkOldKeys()
	for i := range r.plan.servers() {
		r.masters.Master(i).Stop()
	}
	synctest.Wait()
	r.checkGoroutines()
	r.judge.checkTraces()
}

// servers returns how many servers a run needs.
func (p *plan) servers() int {
	if p.spare {
		return p.masters + 1
	}
	return p.masters
}

// patience is how long goroutines may take to get in after the faults: masters leave quarantine,
// leases of the dead end, and everybody who is left holds once more.
func (r *run) patience() time.Duration {
	d := 2*r.plan.lock.TTL + 10*time.Second + r.plan.busyUntil
	for _, p := range r.plan.processes {
		for _, calls := range p.workers {
			for _, c := range calls {
				d += c.think + c.hold + r.plan.profile.free
			}
		}
	}
	return d
}

// await waits for a group, for limit at most, and unless the run has ended early.
func (r *run) await(property string, group *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-r.stop:
	case <-timer.C:
		r.judge.fail("liveness", fmt.Sprintf("not within %v: %s", limit, property))
	}
}

// halt ends the run: no goroutine begins another call.
func (r *run) halt() {
	r.stopOnce.Do(func() { close(r.stop) })
}

func (r *run) stopped() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// sleep waits, and reports whether the run goes on.
func (r *run) sleep(d time.Duration) bool {
	if d <= 0 {
		return !r.stopped()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.stop:
		return false
	}
}

// own notes a life, to be cleaned up.
func (r *run) own(l *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives = append(r.lives, l)
}

// closeWithin is how long a Client may take to close: about DialTimeout.
const closeWithin = 1500 * time.Millisecond

// close closes the Client of a life that has ended.
func (r *run) close(l *life) {
	r.closes.Go(func() {
		began, stopped := time.Now(), l.process.isStopped()
		err := l.client.Close()
		took := time.Since(began)
		r.history.note("%v has closed its Client in %v: %v", l.process, ms(took), err)
		stopped = stopped || l.process.isStopped() // then its connections end when it runs again
		if err != nil && !stopped || took > closeWithin {
			r.judge.fail("close", fmt.Sprintf("%v: Close took %v: %v", l.process, took, err))
		}
	})
}
