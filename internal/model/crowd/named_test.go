package crowd

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A rotation is three masters whose queues may have the clients in different orders. One client has the lock, and all others wait at
// all masters. Each grant has told the holder who is the head of that master's queue now.
type rotation struct {
	holder uint8
	queues [votes][rotators - 1]uint8 // the clients that wait, the first ones first
	named  [votes]name                // by each master, as far as the holder has heard
	split  bool                       // the last release gave no claim a quorum, though it named one that waits
}

// rotators is the number of clients, votes that of masters, and quorum that of the grants with which a claim has the lock.
const rotators, votes, quorum = 4, 3, 2

// A name is a client's claim: the client, counted from 1, and left if it has given that claim up since. 0: none is named.
type name uint8

const left name = 16

func nameOf(c uint8) name { return name(c + 1) }

// join puts a client into the queues, in front of so many others that join at the same time.
func (r *rotation) join(c uint8, before [votes]int) {
	for i := range r.queues {
		rest := slices.DeleteFunc(slices.Clone(r.queues[i][:]), func(o uint8) bool { return o == c })[:rotators-2]
		copy(r.queues[i][:], slices.Insert(rest, len(rest)-before[i], c))
	}
}

// chosen returns the claim that the holder's release names: the one that most masters have named.
func (r *rotation) chosen() (most name) {
	count := func(n name) (all int) {
		for _, o := range r.named {
			if o == n {
				all++
			}
		}
		return all
	}
	for _, n := range r.named {
		if n != 0 && (most == 0 || count(n) > count(most)) {
			most = n
		}
	}
	return most
}

// release has each master grant the lock to the claim that is named, if it waits, or else to the head of its queue. The claim with
// a quorum has the lock. Without a quorum one of those with a grant has it, later, and by answers to its polls. Grants in vain are
// given back, and the claims keep their places. The holder queues again. With ownHeads, no claim is named.
func (r *rotation) release(ownHeads bool, next func(string, rotation)) {
	chosen := r.chosen()
	var grants [votes]uint8
	for i, q := range r.queues {
		grants[i] = q[0]
		if at := slices.IndexFunc(q[:], func(c uint8) bool { return nameOf(c) == chosen }); at >= 0 && !ownHeads {
			grants[i] = q[at]
		}
	}
	split := grants[0] != grants[1] && grants[1] != grants[2] && grants[0] != grants[2]
	for i, c := range grants {
		by := 0 // the masters that have granted it the lock, as bits
		for j := range grants {
			if grants[j] == c {
				by |= 1 << j
			}
		}
		wins := bits.OnesCount(uint(by)) >= quorum
		if !wins && !split || slices.Contains(grants[:i], c) {
			continue
		}
		n := *r
		n.holder, n.split, n.named = c, split && chosen != 0 && chosen < left, [votes]name{}
		for j := range n.queues { // the new holder leaves them, and the one before joins them
			at := slices.Index(n.queues[j][:], c)
			copy(n.queues[j][at:], n.queues[j][at+1:])
			n.queues[j][rotators-2] = r.holder
		}
		for heard := range 1 << votes {
			n := n
			for j := range n.named {
				if wins && by&heard>>j&1 == 1 {
					n.named[j] = nameOf(n.queues[j][0])
				}
			}
			next(fmt.Sprintf("%c releases the lock to %v, and %c has it", 'A'+r.holder, grants, 'A'+c), n)
			if split {
				break
			}
		}
	}
}

// giveUp has a client give up its claim and register again, in front of so many others.
func (r rotation) giveUp(c uint8, before [votes]int) rotation {
	r.join(c, before)
	for i, n := range r.named {
		if n == nameOf(c) {
			r.named[i] += left
		}
	}
	return r
}

// explore visits all states, or ends at one in which a release was split.
func (r rotation) explore(ownHeads bool) explore.Result {
	return explore.Model[rotation, string]{
		Initial: r,
		Check: func(r *rotation) string {
			if r.split {
				return "a release is split"
			}
			return ""
		},
		Successors: func(r *rotation, next func(string, rotation)) {
			r.release(ownHeads, next)
			for c := range uint8(rotators) {
				for n := 0; c != r.holder && n < 27; n++ {
					next(fmt.Sprintf("%c gives up, and registers again", 'A'+c), r.giveUp(c, [votes]int{n / 9, n / 3 % 3, n % 3}))
				}
			}
		},
	}.Explore().Result()
}

// TestAReleaseIsNotSplitIfItNamesAClaim checks the rule that a grant names the next head, and a release the one that most masters have
// named: unless that claim was given up since, some claim has a quorum of grants, whatever the orders of the queues.
func TestAReleaseIsNotSplitIfItNamesAClaim(t *testing.T) {
	inOrder := rotation{holder: rotators - 1, queues: [votes][rotators - 1]uint8{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}}
	explore.Check(t, []explore.Case[rotation, bool]{
		{Name: "a release names a claim", World: inOrder, Floor: 50_000},
		{Name: "each master passes the lock on to the head of its own queue", World: inOrder, Off: true, Want: "a release is split"},
	}, rotation.explore)
}
