package engine

import (
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/occupancy"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/weakmap"
)

// An entrance is where the goroutines of a Client enter and leave the tenure of a name without the masters: that of readers,
// or one that stays with the Client between two holders. The tenure has the gate of the name. So there is one at a time, and
// all who cannot enter it wait at the gate.
//
// The state says who decides about the tenure. docs/design.md#a-tenure-that-goroutines-share has its states and rules, and internal/model/kept
// explores them. A goroutine enters by Readers.enter or keeper.enter. These functions end its stay, or the tenure:
//
//	              called by                                        from         to
//	leave         a reader that unlocks; drop                      held         held, idle, or taken, then dispose
//	drop          a goroutine that has entered too late            held         held, with Draining, then leave
//	mark          a goroutine at the gate; a recall; a renewal;    idle         taken, then dispose
//	              Close                                            held, taken  the same, with a bit
//	giveBack      a TryLock; a renewal; the limit of kept locks    idle         taken, then dispose
//	dispose       whoever has taken the tenure                     taken        held, idle or none: see holders.decide
//	shutOut       the end of the tenure, by whatever               idle         taken, then releaseTaken
//	                                                               held, taken  the same, with Draining
//	releaseTaken  decide; a loss or Close that has taken it        taken        none; the gate is left
//	end           keeper.unlocked, which then leaves the gate;     held, taken  none
//	              releaseTaken; keeper.acquired, of an old tenure
type entrance struct {
	core   *Core  // immutable
	key    string // immutable
	traced bool   // immutable; each call is reported to a hook
	timed  bool   // immutable; for how long each holder held the lock is reported to a hook: no Lease is used again

	// What a goroutine reads that enters is side by side.
	state  occupancy.Atomic
	tenure atomic.Pointer[tenure] // changes while the state is none, or held by one
	keeper keeper                 // goroutines that hold the lock one after the other

	readers Readers                 // goroutines that hold it at the same time
	place   recent.Place[*entrance] // among the locks that the Client keeps
}

// A snapshot is what goroutines see of the validity of a tenure without its mutex.
type snapshot struct {
	start    clock.Reading
	validity time.Duration
	enters   clock.Limit // until it has passed, a goroutine may enter
	entered  time.Time   // when a goroutine had entered last before
}

// newSnapshotLocked has goroutines enter for most, or for half of the validity, after the start of the acquisition or of the last
// renewal. So each has at least the other half in which the tenure can be renewed.
func newSnapshotLocked(t *tenure, most time.Duration) {
	now := &snapshot{start: t.validity.Start, validity: t.validity.Length}
	if last := t.snapshot.Load(); last != nil {
		now.entered = last.lastEntered()
	}
	now.enters.Init(now.start, min(now.validity/2, most))
	t.snapshot.Store(now)
}

// lastEntered returns when a goroutine has entered the tenure last, to 10 ms; zero: none has.
func (s *snapshot) lastEntered() time.Time {
	if at := s.enters.Last(); !at.IsZero() {
		return at
	}
	return s.entered
}

// begin says that n goroutines hold a new tenure. The caller has the gate, and is one of them. flags are those of occupancy.Begin.
func (e *entrance) begin(t *tenure, n int, flags occupancy.State) {
	t.mu.Lock()
	t.sharing.holders.extendedLocked(t)
	if t.err != nil { // shutOut has not found the tenure
		flags |= occupancy.Draining
	}
	e.tenure.Store(t)
	e.state.Begin(n, flags)
	t.mu.Unlock()
	e.core.entrances.byKey.Pin(e.key, e)
	if isClosed(e.core.closing) {
		e.state.Mark(occupancy.Draining)
	}
}

// idle reports whether there is a tenure that nobody holds: it is kept.
func (e *entrance) idle() bool { return e.tenure.Load() != nil && !e.state.Load().Held() }

// lastEntered returns when a goroutine has entered a tenure that is kept, or zero if none has. It reports whether nobody holds the lock.
func (e *entrance) lastEntered() (at time.Time, idle bool) {
	t := e.tenure.Load()
	if t == nil || e.state.Load() != occupancy.Idle {
		return time.Time{}, false
	}
	return t.snapshot.Load().lastEntered(), true
}

// drop is called by a goroutine that has entered a tenure that is over, or that is not to be entered any more. many is as for Enter.
func (e *entrance) drop(many bool) {
	e.state.Mark(occupancy.Draining)
	e.leave(many)
}

// leave has one goroutine leave: see occupancy.State.Leave.
func (e *entrance) leave(many bool) bool {
	left, ok := e.state.Leave(many)
	if ok && left.Taken() {
		e.dispose()
	}
	return ok
}

// mark leaves a bit for the goroutines that hold the tenure. If nobody does, it gives the tenure up, and reports true.
func (e *entrance) mark(bit occupancy.State) (gaveUp bool) {
	_, took := e.state.Mark(bit)
	if took {
		e.dispose()
	}
	return took
}

// giveBack gives the tenure up if nobody holds it, and reports whether it did.
func (e *entrance) giveBack() bool {
	took := e.state.Take()
	if took {
		e.dispose()
	}
	return took
}

// dispose is called by whoever has taken the tenure. The caller must hold no mutex, and must not be about to queue the release of
// a lost lease: finish waits for that.
func (e *entrance) dispose() {
	t := e.tenure.Load()
	t.sharing.holders.decide(t)
}

// shutOut is called when a tenure has ended: nobody else enters it. held reports whether a goroutine may hold the lock. If took is true, the
// caller must call releaseTaken once the release of the lost tenure is queued.
func (e *entrance) shutOut(t *tenure) (held, took bool) {
	if e.tenure.Load() != t {
		return true, false
	}
	now, took := e.state.Mark(occupancy.Draining)
	return !now.Taken(), took
}

// releaseTaken releases a tenure that the caller has taken, unless it has ended, and leaves the gate.
func (e *entrance) releaseTaken(t *tenure) {
	(*releasing)(t).queue()
	e.end()
	e.core.gates.Leave(e.key)
}

// end says that there is no tenure any more that goroutines may enter. The caller has taken it, or holds it alone.
func (e *entrance) end() {
	e.core.kept.Leave(&e.place)
	e.state.End()
	e.tenure.Store(nil)
	e.core.entrances.byKey.Unpin(e.key)
}

// entrances are those of a Client, by key. One with a tenure is pinned: after a loss, nothing else may refer to it, while goroutines
// hold the tenure, and have yet to unlock it.
type entrances struct{ byKey weakmap.Map[entrance] }

// of returns the entrance of a key.
func (h *entrances) of(c *Core, key string) *entrance {
	return h.byKey.Of(key, func() *entrance {
		e := &entrance{core: c, key: key, traced: c.hooks.LockStart != nil || c.hooks.LockDone != nil, timed: c.hooks.TellHeld}
		e.readers.entrance, e.keeper.entrance = e, e
		return e
	})
}

// initKind sets the kind of a Locker of one name. Lockers of a name with different Options do not share a keeper: only
// those with the options of the first one keep the lock.
func (h *entrances) initKind(l *Locker) {
	l.kind = mutex{}
	c := l.core
	if l.opts.Keep == 0 || l.opts.RenewEvery < 0 || c.cfg.Deaf {
		return
	}
	k := &h.of(c, l.key).keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opts == nil {
		opts := l.opts
		k.opts = &opts
	}
	if *k.opts == l.opts {
		l.kind, l.registers = k, true
	}
}

// queued is called when a goroutine has come to the gate of a key.
func (h *entrances) queued(key string) {
	if e := h.byKey.Find(key); e != nil {
		e.mark(occupancy.Wanted)
	}
}

// giveBack gives up a tenure of key that nobody holds, and reports whether there was one.
func (h *entrances) giveBack(key string) bool {
	e := h.byKey.Find(key)
	return e != nil && e.giveBack()
}

// recall handles a recall of a kept lock. It reports false if no Locker of this Client keeps it.
func (h *entrances) recall(key, token string) bool {
	e := h.byKey.Find(key)
	return e != nil && e.keeper.recall(token)
}

// recallReaders asks the readers of a key to leave, because a writer waits. It reports whether this Client may have readers.
func (h *entrances) recallReaders(key string) bool {
	e := h.byKey.Find(key)
	if e != nil {
		e.readers.close()
	}
	return e != nil
}

// closeAll gives up all tenures, those that goroutines hold when they have left.
func (h *entrances) closeAll() {
	for _, e := range h.byKey.All() {
		e.mark(occupancy.Draining)
	}
}
