package simulation

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/executed"
	"github.com/redlock-go/redlock/internal/model/server"
	"github.com/redlock-go/redlock/internal/wire"
)

// A trace has each call that a master executes explained by the specification of one master, and keeps the votes. From these each
// lease is explained: see explainLocked.
type trace struct {
	run    *run // immutable
	master int  // immutable

	mu       sync.Mutex // guards what follows; never held while waiting
	spec     *server.Server
	step     *server.Step    // of the call that is executed; nil: the specification is not about it
	calls    map[string]int  // by script
	votes    map[held][]vote // in the order of their execution
	released map[held]time.Time
	renewed  map[held]time.Time       // when a renewal was executed last, successful or not
	polled   map[held]*executed.Call  // the last registration or poll
	doubted  map[held]bool            // of what was renewed once, see holds
	ended    map[string]map[held]bool // what was released on each connection
	born     time.Time                // since when the memory is known; zero: from the beginning
	safe     time.Time                // when all leases have ended that the master may have forgotten
	longest  time.Time                // until when a vote of before lasts
	refuted  []string                 // what was not explained, and is not reported yet
}

// A held is a name and a token that may hold it.
type held struct{ name, token string }

// A vote says that a master has let a token hold a name.
type vote struct{ at, until time.Time }

// specified are the scripts that the specification is about.
var specified = map[string]server.Script{"batch": server.Batch, "set": server.Set, "slots": server.Slots, "flight": server.Flight}

// unspecified is the name under which all other calls are counted.
const unspecified = "unspecified"

// observe has all that a run's masters execute explained.
func (r *run) observe() {
	for i := range r.plan.servers() {
		t := &trace{run: r, master: i, spec: server.New(), calls: map[string]int{}, votes: map[held][]vote{},
			released: map[held]time.Time{}, renewed: map[held]time.Time{},
			polled: map[held]*executed.Call{}, doubted: map[held]bool{}, ended: map[string]map[held]bool{}}
		r.traces = append(r.traces, t)
		executed.Attach(r.masters.Master(i), t)
	}
}

// explained returns how many calls were explained, and how many the specification is not about.
func (r *run) explained() (explained, others int) {
	for _, t := range r.traces {
		for name, n := range t.calls {
			if explained += n; name == unspecified {
				explained, others = explained-n, others+n
			}
		}
	}
	return explained, others
}

// Before implements executed.Observer.
func (t *trace) Before(c *executed.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = nil
	name := wire.Name(c.Script)
	if of, ok := specified[name]; ok || c.Name != "EVALSHA" {
		t.step = t.spec.Before(of, c)
	}
	if t.step == nil {
		name = unspecified
	}
	t.calls[name]++
}

// After implements executed.Observer.
func (t *trace) After(c *executed.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.step == nil {
		return
	}
	err := t.spec.After(t.step)
	if strings.HasPrefix(c.Reply, "-NOSCRIPT") {
		return // it is sent again, in its order
	}
	if err == nil {
		err = t.orderLocked(c)
	}
	if err != nil {
		t.refuted = append(t.refuted, fmt.Sprintf("master %d executes %s %q: %v", t.master+1, wire.Name(c.Script), c.Args, err))
		return
	}
	for _, h := range t.step.Holders() {
		of := held{h.Name, h.Token}
		if all := t.votes[of]; len(all) == 0 || !all[len(all)-1].until.Equal(h.Until) {
			t.votes[of] = append(all, vote{c.Now, h.Until})
		}
		if h.Until.After(t.longest) {
			t.longest = h.Until
		}
	}
}

// orderLocked checks that nothing of an acquisition follows its release on a connection.
func (t *trace) orderLocked(c *executed.Call) error {
	for _, w := range t.step.Words() {
		of := held{w.Name, w.Token}
		ended := t.ended[c.Link]
		switch w.Verb {
		case "register", "again", "asks":
			t.polled[of] = c
		case "renew":
			p, all := t.polled[of], t.votes[of]
			t.doubted[of] = t.renewed[of].IsZero() && p != nil && (p.Link != c.Link || len(all) > 0 && all[len(all)-1].at.Equal(p.Now))
			t.renewed[of] = c.Now
		}
		switch w.Verb {
		case "release", "undo", "quit":
			if ended == nil {
				ended = map[held]bool{}
				t.ended[c.Link] = ended
			}
			ended[of] = true
			t.released[of] = c.Now
		case "pass", "announce": // the token is that of a message, or none
		default:
			if ended[of] {
				return fmt.Errorf("%s of %q follows its release on the same connection", w.Verb, w.Token)
			}
		}
	}
	return nil
}

// checkTraces reports what was not explained. The judge's mutex must not be taken while a master executes a call.
func (j *judge) checkTraces() {
	for _, t := range j.run.traces {
		t.mu.Lock()
		refuted := t.refuted
		t.refuted = nil
		t.mu.Unlock()
		for _, text := range refuted {
			j.fail("trace", text)
		}
	}
}

// Changed implements executed.Observer.
func (t *trace) Changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spec.Forget()
}

// begins notes that a master's memory is known from now on only: it has lost it, or was restarted.
func (t *trace) begins() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.born, t.safe = time.Now(), t.longest
}

// explains returns until when a vote of the master lets a token hold a name, as the client can know it that is so far away. A vote
// after a loss of memory counts only when all leases have ended that may have been forgotten.
func (t *trace) explains(of held, there, back time.Duration, now time.Time) (until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.votes[of] {
		known := v.at.Before(t.born) || !v.at.Before(t.safe)
		if known && !v.at.Add(back).After(now) && v.until.After(until) {
			until = v.until
		}
	}
	return until.Add(-there)
}

// explainLocked checks that a quorum of votes explains a lease: a vote was executed after the lease's acquisition or renewal was
// sent, and the client has heard of it. A lease is shorter than its votes by the drift, of which 2 ms do not depend on its length.
func (j *judge) explainLocked(h *holding) {
	until := h.lease.Until()
	if until.Equal(h.explained) || !h.lease.Valid() {
		return
	}
	h.explained = until
	now := time.Now()
	for _, name := range h.names() {
		var votes []string
		n := 0
		for i, t := range j.run.traces[:j.run.plan.masters] {
			route := h.turn.life.links[i].route
			end := t.explains(held{name, h.token}, route.delay[toMaster], route.delay[toClient], now)
			if !end.Add(-2 * time.Millisecond).Before(until) {
				n++
			}
			votes = append(votes, end.Sub(j.run.begun).String())
			record, _, _ := strings.Cut(name, "#") // the commands of permits are about all their slots
			if at, ok := t.releasedAt(held{record, h.token}); ok {
				j.failLocked("trace", fmt.Sprintf("%s has a lease of %q, whose token was released at master %d at %v", h.turn.name, name, i+1, ms(at.Sub(j.run.begun))))
			}
		}
		if n <= j.run.plan.masters/2 {
			j.failLocked("trace", fmt.Sprintf("the lease of %s on %q until %v is not explained by the votes, until %v", h.turn.name, name,
				until.Sub(j.run.begun), strings.Join(votes, ", ")))
		}
	}
}

// names returns the names that a lease holds, as a trace has them.
func (h *holding) names() (all []string) {
	if h.slots == nil {
		return h.turn.call.names()
	}
	for _, slot := range h.slots {
		all = append(all, server.SlotName("redlock:slots:"+h.turn.call.name, int64(slot)))
	}
	return all
}

// releasedAt reports when a token was released.
func (t *trace) releasedAt(of held) (at time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok = t.released[of]
	return at, ok
}

// late reports whether a token holds a name since a request that was executed after the release of the token. Then the request was
// delayed on a connection that was lost, since the trace refutes it on one connection. Embedded masters know no CLIENT KILL, by
// which a client prevents that.
func (t *trace) late(of held) bool {
	released, ok := t.releasedAt(of)
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.votes[of]
	return ok && len(all) > 0 && !all[len(all)-1].at.Before(released)
}

// explainLossLocked checks that a lease that has ended before its time is explained: so many masters do not let its token hold the
// name any more that the others are no quorum.
func (j *judge) explainLossLocked(h *holding) {
	now := time.Now()
	if h.dead || !now.Before(h.lease.Until()) || h.turn.process.offset.Load() != 0 {
		return
	}
	for _, name := range h.turn.call.names() {
		if !j.lockOf(name).erased.IsZero() {
			return // keys were deleted by hand
		}
	}
	for _, name := range h.names() {
		n := 0
		for _, t := range j.run.traces[:j.run.plan.masters] {
			if t.holds(held{name, h.token}, now) {
				n++
			}
		}
		if n <= j.run.plan.masters/2 {
			return
		}
	}
	j.failLocked("trace", fmt.Sprintf("%s has lost its lease on %q, which lasts until %v, although a quorum of masters lets it hold: %v", h.turn.name, h.turn.call.names(),
		ms(h.lease.Until().Sub(j.run.begun)), h.lease.Err()))
}

// holds reports whether a master lets a token hold a name, as its holder counts it. A key that was healed since the last renewal, or a slot that
// a wish has brought since, counts from the next one on. So does a key whose last poll may have had no answer, or has brought the vote: the message about
// the grant may come ahead of the answer, which says that the claim had not been in the queue. See waits.Claim.Answered.
func (t *trace) holds(of held, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.votes[of]
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	record, _, _ := strings.Cut(of.name, "#") // the commands of permits are about all their slots
	whole := held{record, of.token}
	if renewed, ok := t.renewed[whole]; ok && (last.at.After(renewed) || t.doubted[whole]) {
		return false
	}
	return last.until.After(now) && !last.at.Before(t.born)
}
