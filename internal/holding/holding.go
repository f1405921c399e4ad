// Package holding determines who holds a lock and who waits for it, from the answers of the masters. It sends
// nothing, and no lock depends on it.
package holding

import (
	"cmp"
	"maps"
	"slices"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Holding is the combined state of one lock on several masters.
type Holding struct {
	// The Holder has the token that is on the most masters, or none. Need of these masters keep it for Left, or all of them if they are
	// fewer. All other facts are what one of them says.
	wire.Holder

	Masters int      // how many masters have the token
	Need    int      // how many masters are a quorum
	Fence   uint64   // the last fence of the name, as Lease.Fence returns it, without handovers
	Readers []string // the owners of the clients whose readers hold the lock; only some if there are many
	Queue

	// NotALock says by master why its key is not a lock. An element is nil if the key may be one. It is nil if all may be.
	NotALock []error
}

// A Queue is the combined queue of several masters. Those who have waited the longest are first.
type Queue wire.Queue

// Held reports whether a quorum has the token.
func (h Holding) Held() bool { return h.Masters >= h.Need }

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
	byToken := make(map[string][]wire.Holder)
	var queues []wire.Queue
	for _, look := range looks {
		if look.Token != "" {
			byToken[look.Token] = append(byToken[look.Token], look.Holder)
		}
		queues = append(queues, look.Queue)
	}
	for _, token := range slices.Sorted(maps.Keys(byToken)) {
		if n := len(byToken[token]); n > h.Masters {
			h.Token, h.Masters = token, n
		}
	}
	if h.Masters > 0 {
		all := byToken[h.Token]
		slices.SortStableFunc(all, func(a, b wire.Holder) int { return cmp.Compare(uint64(b.Left), uint64(a.Left)) }) // Forever first
		h.Holder = all[min(h.Need, h.Masters)-1]
	}
	for _, look := range looks {
		if h.Token == "" || look.Token == h.Token {
			h.Fence = max(h.Fence, uint64(look.Fence)<<wire.FenceBits)
		}
	}
	h.Queue = queueOf(queues, n)
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
// queues may have got the lock: masters outside its quorum keep it in their queues. All facts but For are what one of the masters says.
func queueOf(queues []wire.Queue, n int) (q Queue) {
	all, stands := make(map[wire.Waiter]wire.Waiter), make(map[wire.Waiter]int)
	for _, queue := range queues {
		if queue.Waiting > len(queue.Waiters) {
			q.Waiting = max(q.Waiting, queue.Waiting)
		}
		for _, w := range queue.Waiters {
			key := wire.Waiter{ID: w.ID, Token: w.Token, Reads: w.Reads}
			w.For = max(w.For, all[key].For)
			all[key] = w
			stands[key]++
		}
	}
	least := quorum.Majority(n) - (n - len(queues))
	for key, w := range all {
		if stands[key] >= least {
			q.Waiters = append(q.Waiters, w)
		}
	}
	slices.SortFunc(q.Waiters, func(a, b wire.Waiter) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Token, b.Token))
	})
	q.Waiting = max(q.Waiting, len(q.Waiters))
	return q
}

// IDs returns the ids of the clients that wait.
func (q Queue) IDs() []string {
	ids := make([]string, len(q.Waiters))
	for i, w := range q.Waiters {
		ids[i] = w.ID
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
	q.Waiters = slices.DeleteFunc(q.Waiters, func(w wire.Waiter) bool {
		return !slices.ContainsFunc(listening, func(ids map[string]bool) bool { return ids[w.ID] })
	})
	q.Waiting -= before - len(q.Waiters)
}
