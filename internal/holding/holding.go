// Package holding determines who holds a lock and who waits for it, from the answers of the masters. It sends
// nothing, and no lock depends on it.
package holding

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Holding is the combined state of one lock on several masters.
type Holding struct {
	Token   string        // the token that is on the most masters; empty if no master has one
	Masters int           // how many masters have the token
	Need    int           // how many masters are a quorum
	Left    time.Duration // how long Need masters keep the token, or all that have it if fewer; or wire.Forever
	Fence   uint64        // the last fence of the name, as Lease.Fence returns it, without handovers
	Readers []string      // the owners of the clients whose readers hold the lock; only some if there are many
	Queue

	// NotALock says by master why its key is not a lock. An element is nil if the key may be one. It is nil if all may be.
	NotALock []error
}

// A Queue says who waits.
type Queue struct {
	Waiting int      // how many clients wait; for a semaphore: how many claims
	Waiters []Waiter // the first of them, the longest first; only some if many wait
}

// A Waiter is a client that waits.
type Waiter struct {
	Owner string        // empty if the client's id names none
	For   time.Duration // since when it waits
	Reads bool          // it waits to read

	// Of a claim on slots of a semaphore:
	Permits int // how many it waits for
	Limit   int // with which it waits

	id, token string
}

// Held reports whether a quorum has the token.
func (h Holding) Held() bool { return h.Masters >= h.Need }

// Owner returns the owner in the token: who holds the lock, or tries to acquire it. It is empty if the token
// names no owner.
func (h Holding) Owner() string { return wire.OwnerOf(h.Token) }

// MayBeKept reports whether the client that has the token may keep the lock while nobody holds it.
func (h Holding) MayBeKept() bool { return wire.MayBeKept(h.Token) }

// Peeked returns what the answers to a peek say.
func Peeked(votes []quorum.Vote) Holding {
	h := Of(Decode(votes, wire.DecodePeek), len(votes))
	for i, v := range votes {
		if wire.IsNotALock(v.Err) {
			if h.NotALock == nil {
				h.NotALock = make([]error, len(votes))
			}
			h.NotALock[i] = v.Err
		}
	}
	return h
}

// Of combines the looks of the masters that have answered, out of n masters.
func Of(looks []wire.Look, n int) Holding {
	h := Holding{Need: quorum.Majority(n)}
	byToken := make(map[string][]time.Duration)
	for _, look := range looks {
		if look.Token != "" {
			byToken[look.Token] = append(byToken[look.Token], look.Left)
		}
	}
	for _, token := range slices.Sorted(maps.Keys(byToken)) {
		if n := len(byToken[token]); n > h.Masters {
			h.Token, h.Masters = token, n
		}
	}
	if h.Masters > 0 {
		lefts := byToken[h.Token]
		slices.SortFunc(lefts, func(a, b time.Duration) int { return cmp.Compare(uint64(b), uint64(a)) }) // Forever first
		h.Left = lefts[min(h.Need, h.Masters)-1]
	}
	for _, look := range looks {
		if h.Token == "" || look.Token == h.Token {
			h.Fence = max(h.Fence, uint64(look.Fence)<<wire.FenceBits)
		}
	}
	h.Queue = queueOf(looks, n)
	h.readers(looks, n)
	return h
}

// readers merges the masters' readers. A client's readers hold the lock if they may have a quorum.
func (h *Holding) readers(looks []wire.Look, n int) {
	stands := make(map[string]int)
	for _, look := range looks {
		for _, id := range look.Readers {
			stands[id]++
		}
	}
	for id := range stands {
		if stands[id] >= h.Need-(n-len(looks)) {
			h.Readers = append(h.Readers, wire.OwnerOf(id))
		}
	}
	slices.Sort(h.Readers)
}

// queueOf merges the masters' queues. A client waits if it may be in the queues of a quorum. One in fewer
// queues may have got the lock: masters outside its quorum keep it in their queues.
func queueOf(looks []wire.Look, n int) (q Queue) {
	all, queues := make(map[string]Waiter), make(map[string]int)
	for _, look := range looks {
		if look.Waiting > len(look.Waiters) {
			q.Waiting = max(q.Waiting, look.Waiting)
		}
		for _, w := range look.Waiters {
			key := w.ID + " " + w.Token
			if w.Reads {
				key += " reads"
			}
			all[key] = Waiter{Owner: wire.OwnerOf(w.ID), For: max(all[key].For, w.For), Reads: w.Reads, Permits: w.Permits, Limit: w.Limit, id: w.ID, token: w.Token}
			queues[key]++
		}
	}
	least := quorum.Majority(n) - (n - len(looks))
	for key, w := range all {
		if queues[key] >= least {
			q.Waiters = append(q.Waiters, w)
		}
	}
	slices.SortFunc(q.Waiters, func(a, b Waiter) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.id, b.id), cmp.Compare(a.token, b.token))
	})
	q.Waiting = max(q.Waiting, len(q.Waiters))
	return q
}

// IDs returns the ids of the clients that wait.
func (q Queue) IDs() []string {
	ids := make([]string, len(q.Waiters))
	for i, w := range q.Waiters {
		ids[i] = w.id
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Census drops the clients that wait no longer, as far as masters say which of these they have a subscription of. ask sends a query to all
// masters, and returns their answers.
func (q *Queue) Census(ask func(wire.Query) []quorum.Vote) {
	if len(q.Waiters) == 0 {
		return
	}
	var listening []map[string]bool
	for _, v := range ask(wire.NewCensus(q.IDs())) {
		if ids, ok := wire.DecodeCensus(v.Replies); v.Granted() && ok {
			listening = append(listening, ids)
		}
	}
	q.Drop(listening)
}

// Drop removes the clients of which no master has a subscription. Such clients have ended, but the
// queues keep them for a while. listening is the answer of each master to a census.
func (q *Queue) Drop(listening []map[string]bool) {
	if len(listening) == 0 {
		return
	}
	before := len(q.Waiters)
	q.Waiters = slices.DeleteFunc(q.Waiters, func(w Waiter) bool {
		return !slices.ContainsFunc(listening, func(ids map[string]bool) bool { return ids[w.id] })
	})
	q.Waiting -= before - len(q.Waiters)
}
