package master

import (
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// A plan arranges commands for sending. It gathers scripted commands into batches, one call of the script
// each, because a call costs a master far more than another key in it. Other commands stay where they
// are.
//
// Commands with the same key are never reordered. Those in one batch are executed in order, so a release
// and the next acquisition of its key share a call. The current batch is closed before a command that cannot
// join it and whose key it holds. A command for several names is a call of its own.
type plan struct {
	items   []item // in the order of sending; see item.batch
	current []item // the current batch
	names   map[string]struct{}
	apart   bool // a release of several names and their next acquisition do not share a call: see follows
}

// arrange returns queue in the order of sending. The slice is valid until the next arrange.
func (p *plan) arrange(queue []item) []item {
	clear(p.items) // so that what has ended can be freed
	p.items = p.items[:0]
	for _, it := range queue {
		if it.OfSet() || it.claim != nil && (it.alone || !it.Scripted()) && p.holds(it.Claim.Key()) {
			p.close()
		}
		switch {
		case !it.Scripted():
			it.batch = 0
			p.items = append(p.items, it)
		case !p.apart && p.follows(&it):
			p.items[len(p.items)-1].batch = 2
			it.batch = 0
			p.items = append(p.items, it)
		case it.alone || it.OfSet():
			it.batch = 1
			p.items = append(p.items, it)
		default:
			p.gather(it)
		}
	}
	p.close()
	return p.items
}

func (p *plan) gather(it item) {
	if len(p.current) == wire.BatchMost || len(p.current) > 0 && p.current[0].Script() != it.Script() {
		p.close()
	}
	if len(p.current) == fewNames { // from here on, holds uses the map
		if p.names == nil {
			p.names = make(map[string]struct{}, wire.BatchMost)
		}
		for i := range p.current {
			p.names[p.current[i].Claim.Key()] = struct{}{}
		}
	}
	p.current = append(p.current, it)
	if len(p.current) > fewNames {
		p.names[it.Claim.Key()] = struct{}{}
	}
}

// fewNames is up to how many names are compared one by one instead of in a map.
const fewNames = 8

// holds reports whether the current batch has a command with this name.
func (p *plan) holds(name string) bool {
	if len(p.current) > fewNames {
		_, ok := p.names[name]
		return ok
	}
	for i := range p.current {
		if p.current[i].Claim.Key() == name {
			return true
		}
	}
	return false
}

// close ends the current batch, if there is one.
func (p *plan) close() {
	if len(p.current) == 0 {
		return
	}
	for i := range p.current {
		p.current[i].batch = 0
	}
	p.current[0].batch = len(p.current)
	p.items = append(p.items, p.current...)
	clear(p.current)
	p.current = p.current[:0]
	clear(p.names)
}

// follows reports whether an acquisition of several names can share a call with the release right before it, of the
// same names. That is usual for a loop of locks and unlocks without contention. If the master finds a client in a
// queue, it does nothing, and both are sent again, each by itself, which takes one more round trip. So for a while
// after that, they do not share calls.
func (p *plan) follows(it *item) bool {
	if len(p.items) == 0 || it.alone {
		return false
	}
	last := &p.items[len(p.items)-1]
	return last.batch == 1 && !last.alone && last.debt == nil && it.Follows(&last.Command)
}

// apartFor is how long releases and acquisitions do not share calls after a client was in a queue.
const apartFor = time.Second

// script returns the request that loads the script of a scripted command, or of the batch that begins with it.
func (it *item) script() wire.Request {
	if it.OfSet() && it.batch == 2 {
		return wire.FollowScript
	}
	return it.Script()
}
