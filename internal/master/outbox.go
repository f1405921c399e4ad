package master

import (
	"time"

	"github.com/redlock-go/redlock/internal/fifo"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/wire"
)

// An item is one command on its way.
type item struct {
	wire.Command
	claim    *SentClaim // whose part Command.Claim is; nil if that is nil
	asker    Asker      // nil if nobody needs the answer
	debt     *debt      // set for a release that was owed
	batch    int        // the number of items that share one script call, from this one on; 0: none begins here
	alone    bool       // not to be batched: an earlier batch with this item was answered by an error
	reloaded bool       // sent again after the script was loaded again
	probe    guard.Probe
}

// newItem returns the item for a request.
func newItem(r wire.Request, claim *SentClaim, asker Asker) item {
	it := item{Command: wire.Command{Kind: r.Kind(), Request: r}, claim: claim, asker: asker}
	if claim != nil {
		it.Claim = &claim.Claim
	}
	return it
}

// An outbox holds a master's commands. The Master's mutex guards it.
//
//   - A command is queued first. It is in flight from when the writer takes it until its reply is read.
//   - Commands with the same key are written in the order in which they were pushed.
//   - A release that the master has not answered is owed, and sent again.
type outbox struct {
	index int           // immutable; of the master
	wake  chan struct{} // cap 1: the queue has something for the writer

	queue  []item           // not yet taken by the writer
	plan   plan             // arranges what the writer takes
	flight fifo.Queue[item] // taken by the writer, not yet answered
	owed   []*debt
	apart  time.Time // until then plan.apart is set
}

// size returns how many commands are queued, in flight or owed.
func (o *outbox) size() int { return len(o.queue) + o.flight.Len() + len(o.owed) }

// idle reports whether nothing is queued or in flight.
func (o *outbox) idle() bool { return len(o.queue) == 0 && o.flight.Len() == 0 }

// push queues a command.
func (o *outbox) push(it item) {
	o.queue = append(o.queue, it)
	if len(o.queue) == 1 {
		poke(o.wake)
	}
}

// take moves the queue into flight, and returns it in the order of sending. votes says that there are votes among the items that need a probe
// now, and unproved that there are commands whose votes wait for a later one. The slice is valid until the next take, and belongs to the writer.
func (o *outbox) take(now time.Time, listening bool) (items []item, votes, unproved bool) {
	o.plan.apart = now.Before(o.apart)
	items = o.plan.arrange(o.queue)
	clear(o.queue)
	o.queue = o.queue[:0]
	for i := range items {
		it := &items[i]
		it.Sent, it.Listening = now, listening
		if it.Kind.Sets() {
			it.claim.at[o.index].write()
		}
		if it.Kind.Votes() {
			votes, unproved = votes || !it.Unproved(), unproved || it.Unproved()
		}
		o.flight.Push(*it)
	}
	return items, votes, unproved
}

// follow adds a command to what take has returned.
func (o *outbox) follow(it item) []item {
	o.flight.Push(it)
	o.plan.items = append(o.plan.items, it)
	return o.plan.items
}

// withdraw takes the queued items out for which drop is true, and returns their Askers.
func (o *outbox) withdraw(drop func(*item) bool) (askers []Asker) {
	rest := o.queue[:0]
	for i := range o.queue {
		if it := &o.queue[i]; !drop(it) {
			rest = append(rest, *it)
		} else if it.asker != nil {
			askers = append(askers, it.asker)
		}
	}
	clear(o.queue[len(rest):])
	o.queue = rest
	return askers
}

// empty takes everything out of queue and flight when the connection is gone. Releases become owed.
// It returns the Askers of all commands.
func (o *outbox) empty() (askers []Asker) {
	lost := make([]item, 0, o.flight.Len()+len(o.queue))
	for o.flight.Len() > 0 {
		it := o.flight.Pop()
		if it.Kind.Sets() {
			it.claim.at[o.index].lose()
		}
		lost = append(lost, it)
	}
	lost = append(lost, o.queue...)
	clear(o.queue)
	o.queue = o.queue[:0]
	for i := range lost {
		if lost[i].Kind.Releases() {
			o.owe(&lost[i], time.Time{})
		}
		if lost[i].asker != nil {
			askers = append(askers, lost[i].asker)
		}
	}
	return askers
}

// A debt is a release that the master has not answered. It is kept until the master does: a frozen
// master may execute a SET when it thaws, and the key then lives for its full TTL unless this client
// deletes it.
type debt struct {
	request wire.Request
	claim   *SentClaim
	due     time.Time // it is not sent before; zero: at once
}

// owe keeps a release to be sent again, unless the master cannot hold the token.
func (o *outbox) owe(it *item, due time.Time) {
	if !it.claim.at[o.index].mayHold() {
		return
	}
	if it.debt == nil {
		it.debt = &debt{request: it.Request, claim: it.claim}
	}
	if !due.IsZero() {
		it.debt.due = due
	}
	o.owed = append(o.owed, it.debt)
}

// due takes out the owed releases that are to be sent now, and returns them as items.
func (o *outbox) due(now time.Time) (items []item) {
	keep := o.owed[:0]
	for _, d := range o.owed {
		if d.due.After(now) {
			keep = append(keep, d)
		} else {
			it := newItem(d.request, d.claim, nil)
			it.debt = d
			items = append(items, it)
		}
	}
	clear(o.owed[len(keep):])
	o.owed = keep
	return items
}

// poke sends a signal on a channel of capacity 1, unless a signal is pending.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
