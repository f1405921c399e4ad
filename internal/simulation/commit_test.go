package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// commit executes a fault at its time.
func (r *run) commit(f fault) {
	if !r.sleep(f.at) {
		return
	}
	r.history.note("fault %d: %v", f.id, f)
	undo := r.inflict(f)
	r.sleep(f.lasts)
	if undo != nil {
		undo()
		r.history.note("fault %d is over", f.id)
	}
}

// inflict begins a fault, and returns a function that ends it.
func (r *run) inflict(f fault) (undo func()) {
	switch f.kind {
	case stopMaster, forgetMaster, flushMaster, freezeMaster, failMaster, loseReply, dropRequest, cutMaster, flushScripts:
		return r.inflictMasters(f)
	case endMaster:
		r.judge.trouble(f.masters, true) // without an end
		for _, i := range f.masters {
			r.masters.Master(i).Stop()
		}
		return nil
	case eraseKey:
		r.erase(f)
		return nil
	case pauseProcess, killProcess, loseMachine, closeProcess, setProcessClock:
		return r.inflictProcess(f)
	case throttleProcess:
		r.throttle(f)
		return nil
	case promoteReplica:
		r.promote(f)
		return nil
	}
	return r.inflictLinks(f)
}

func (r *run) inflictMasters(f fault) (undo func()) {
	out := f.kind == stopMaster || f.kind == forgetMaster || f.kind == flushMaster || f.kind == freezeMaster || f.kind == failMaster
	over := r.judge.trouble(f.masters, out)
	each := func(do func(m *redlocktest.Master)) {
		for _, i := range f.masters {
			do(r.masters.Master(i))
		}
	}
	begin, end := func(*redlocktest.Master) {}, func(*redlocktest.Master) {}
	switch f.kind {
	case stopMaster:
		begin, end = (*redlocktest.Master).Stop, r.start
	case forgetMaster:
		begin, end = (*redlocktest.Master).Stop, r.start
		defer each(r.forget)
	case flushMaster:
		begin = r.forget
	case freezeMaster:
		begin, end = (*redlocktest.Master).Freeze, (*redlocktest.Master).Thaw
	case failMaster:
		begin = func(m *redlocktest.Master) { m.Fail("LOADING the dataset is being loaded") }
		end = func(m *redlocktest.Master) { m.Fail("") }
	case cutMaster:
		begin = (*redlocktest.Master).Cut
	case flushScripts:
		begin = func(m *redlocktest.Master) { r.sendFlush(m) }
	case loseReply:
		begin = func(m *redlocktest.Master) { m.LoseReply(f.command) }
	case dropRequest:
		begin = func(m *redlocktest.Master) { m.DropRequest(f.command) }
	}
	each(begin)
	return func() {
		each(end)
		over()
	}
}

// start starts a master that has stopped. Nobody knows whether it has lost its memory.
func (r *run) start(m *redlocktest.Master) {
	r.traceOf(m).begins()
	m.Start()
}

// forget has a master lose its memory.
func (r *run) forget(m *redlocktest.Master) {
	m.Forget()
	r.traceOf(m).begins()
}

// traceOf returns the trace of a master.
func (r *run) traceOf(m *redlocktest.Master) *trace {
	for i, t := range r.traces {
		if r.masters.Master(i) == m {
			return t
		}
	}
	panic("a master without a trace")
}

// sendFlush sends SCRIPT FLUSH. Errors do not matter: the master may be down.
func (r *run) sendFlush(m *redlocktest.Master) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := m.Dial(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	conn := redis.NewConn(c, 0, 0)
	conn.Do("SCRIPT", "FLUSH")
}

func (r *run) inflictLinks(f fault) (undo func()) {
	over := r.judge.trouble(f.masters, false)
	l := r.procs[f.process].current()
	each := func(do func(l *link)) {
		for _, i := range f.masters {
			if l != nil {
				do(l.links[i])
			}
		}
	}
	begin, end := func(*link) {}, func(*link) {}
	switch f.kind {
	case cutLink:
		begin = func(l *link) { l.block(toMaster); l.block(toClient) }
		end = func(l *link) { l.unblock(toMaster); l.unblock(toClient) }
	case cutLinkOneWay:
		begin = func(l *link) { l.block(f.way) }
		end = func(l *link) { l.unblock(f.way) }
	case slowLink:
		begin = func(l *link) { l.setSlow(f.amount) }
		end = func(l *link) { l.setSlow(0) }
	case resetLink:
		begin = func(l *link) { l.reset(f.amount) }
	}
	each(begin)
	return func() {
		each(end)
		over()
	}
}

// promote restarts masters with their memory, which an operator has adopted. The subscriptions of the fault's process remain,
// at a server to which nobody publishes.
func (r *run) promote(f fault) {
	defer r.judge.trouble(f.masters, false)()
	for _, i := range f.masters {
		if l := r.procs[f.process].current(); l != nil {
			r.leaveBehind(l.links[i])
		}
		m := r.masters.Master(i)
		m.Stop()
		m.Adopt()
		m.Start()
	}
}

// leaveBehind moves the subscriptions of a link to the spare server.
func (r *run) leaveBehind(l *link) {
	l.mu.Lock()
	conns := slices.DeleteFunc(slices.Clone(l.conns), func(c *conn) bool { return c.subscribe == nil || c.closed || c.broken != nil })
	l.mu.Unlock()
	for _, c := range conns {
		server, err := r.masters.Master(r.plan.masters).Dial(context.Background())
		if err == nil {
			err = c.leaveBehind(server)
		}
		if err != nil {
			panic(err)
		}
	}
}

// throttledRuns is how long a throttled process runs at a time.
const throttledRuns = 30 * time.Millisecond

// throttle stops a process again and again.
func (r *run) throttle(f fault) {
	p := r.procs[f.process]
	over := r.judge.trouble(r.plan.everywhere(), false)
	defer over()
	for end := time.Now().Add(f.lasts); time.Now().Before(end) && r.sleep(throttledRuns); {
		p.pause()
		r.sleep(f.amount - throttledRuns)
		p.resume()
	}
}

func (r *run) inflictProcess(f fault) (undo func()) {
	p := r.procs[f.process]
	switch f.kind {
	case setProcessClock:
		p.offset.Add(int64(f.amount))
		r.judge.clockSet(p, f.amount)
		return nil
	case pauseProcess:
		over := func() {}
		if r.plan.busyUntil == 0 { // otherwise the others must not have to wait for it
			over = r.judge.trouble(r.plan.everywhere(), false)
		}
		p.pause()
		return func() {
			p.resume()
			over()
		}
	case closeProcess:
		p.shut()
	default:
		p.crash(f.kind == loseMachine)
	}
	return p.startAgain
}

// erase deletes keys of a lock by hand.
func (r *run) erase(f fault) {
	check, after := r.judge.erase("a", f.masters)
	if check != nil && r.sleep(after) {
		check()
	}
}

// checkKeys checks that no key of a lock is left once nobody holds or waits, and releases have had
// time to be sent again.
func (r *run) checkKeys() {
	settle := 2 * time.Second
	if r.plan.reads() || r.plan.lock.Keep > 0 {
		settle = max(settle, r.plan.lock.TTL) // a lease that nobody uses is kept for up to half of its validity
	}
	for _, f := range r.plan.faults {
		switch {
		case f.kind == endMaster || f.kind == killProcess || f.kind == loseMachine || f.kind == closeProcess:
			settle = max(settle, r.plan.lock.TTL+2*time.Second) // nobody releases the locks of dead processes
		case f.process >= 0 || f.lasts > 0:
			settle = max(settle, 13*time.Second) // releases are repeated until 10 s after a connection broke
		}
	}
	if !r.sleep(settle) {
		return
	}
	for i := range r.plan.masters {
		m := r.masters.Master(i)
		for _, key := range m.Keys() {
			if strings.HasPrefix(key, "redlock:") {
				continue
			}
			token, _ := m.Get(key)
			if r.traces[i].late(held{key, token}) {
				continue
			}
			r.judge.fail("keys left", fmt.Sprintf("%s keeps %q = %s for %v, although nobody holds it", m.Name(), key, token, m.TTL(key)))
		}
	}
}

// checkOldKeys checks that our own keys disappear by themselves.
func (r *run) checkOldKeys() {
	if len(r.judge.violations) > 0 {
		return
	}
	time.Sleep(25 * time.Hour) // fences are kept for a day
	for i := range r.plan.masters {
		if keys := r.masters.Master(i).Keys(); len(keys) > 0 {
			r.judge.fail("keys left", fmt.Sprintf("master %d keeps %q after a day", i+1, keys))
		}
	}
}

// checkGoroutines checks that no goroutine of the run is left but the calling one.
func (r *run) checkGoroutines() {
	if left := bubbletest.Stacks(); len(left) > 0 {
		r.judge.fail("goroutines left", strings.Join(left, "\n\n"))
	}
}
