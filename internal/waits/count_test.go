package waits

import (
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestVotesThatLastAreCounted(t *testing.T) {
	const ms = time.Millisecond
	type v struct {
		life, age time.Duration
		fence     int64
	}
	for _, row := range []struct {
		name    string
		votes   [3]v
		most    int64
		mine    uint64
		left    time.Duration // of the quorum; 0: there is none
		masters uint64
	}{
		{"a quorum lasts for as long as its earliest vote", [3]v{{life: 300 * ms}, {life: 100 * ms}, {life: 200 * ms}}, 0, 0b111, 190 * ms, 0b101},
		{"no vote", [3]v{{life: 300 * ms}, {}, {}}, 0, 0b001, 0, 0},
		{"a vote that is over", [3]v{{life: 300 * ms}, {life: 300 * ms, age: 300 * ms}, {life: 200 * ms, age: 100 * ms}}, 0, 0b101, 90 * ms, 0b101},
		{"a vote that is over by the drift of clocks", [3]v{{life: 300 * ms}, {life: 200 * ms, age: 190 * ms}, {}}, 0, 0b001, 0, 0},
		{"all are over", [3]v{{life: 100 * ms, age: 200 * ms}, {}, {}}, 0, 0, 0, 0},
		{"a fence too far ahead", [3]v{{life: 300 * ms, fence: 71}, {life: 200 * ms, fence: 72}, {life: 100 * ms, fence: 70}}, 71, 0b111, 90 * ms, 0b101},
		{"fences too far ahead", [3]v{{life: 300 * ms, fence: 72}, {life: 200 * ms, fence: 72}, {life: 100 * ms, fence: 70}}, 71, 0b111, 0, 0},
		{"any fence", [3]v{{life: 300 * ms, fence: 72}, {life: 200 * ms, fence: 72}, {}}, 0, 0b011, 190 * ms, 0b011},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				began := clock.System()
				time.Sleep(time.Second)
				now := clock.System()
				in := New(3, tenMillis).Begin("a")
				c := claimOf(in, "mine")
				c.Began, c.firstVote, c.at[0].void = began, began.Time(), true
				for i, v := range row.votes {
					if v.life > 0 {
						at := now.Time().Add(-v.age)
						c.at[i].vote = vote{mark: clock.At(at, at, 0), life: v.life, fence: v.fence, slots: theLock}
					}
				}
				now = clock.At(now.Time(), now.Time(), 0)
				n := c.Count(now, row.most)
				mine, first, won := n.Mine, n.First, n.Won
				if mine != row.mine || first.IsZero() != (row.mine == 0) || c.at[0].void {
					t.Errorf("votes of %b, the first at %v, void %t; want votes of %b", mine, first, c.at[0].void, row.mine)
				}
				if (won != nil) != (row.left > 0) || won != nil && (won.Slots != nil || won.Left != row.left || won.masters != row.masters) {
					t.Fatalf("the quorum is %+v, want one that lasts for %v and rests on %b", won, row.left, row.masters)
				}
				for i, v := range row.votes {
					if won != nil && won.masters>>i&1 == 1 && (!won.Votes[i].Granted() || won.Votes[i].Fence != v.fence) {
						t.Errorf("vote %d is %+v, want one that was granted with the fence %d", i, won.Votes[i], v.fence)
					}
				}
			})
		})
	}
}

// The lives may differ by more than an int of 32 bits can say in nanoseconds.
func TestAMajorityEndsWithItsEarliestVote(t *testing.T) {
	now := clock.System()
	in := New(3, noDrift).Begin("a")
	for _, long := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 7 * 24 * time.Hour} {
		c := &Claim{inbox: in, at: []atMaster{{vote: vote{mark: now, life: long, slots: theLock}}, {vote: vote{mark: now, life: 400 * time.Millisecond, slots: theLock}}, {}}}
		m := c.Count(now, 0).Won
		if m == nil || m.Left != 400*time.Millisecond {
			t.Errorf("votes for 400ms and %v: a quorum for %v, want 400ms", long, m.Left)
		}
	}
}

func TestVotesForSlotsAreCountedBySlot(t *testing.T) {
	for _, row := range []struct {
		name  string
		n     int
		votes [][]int // by master; nil: it has not voted
		aim   []int
		won   []int
		split bool
	}{
		{"a quorum for one slot", 1, [][]int{{4}, {4}, {2}, {4}, nil}, nil, []int{4}, false},
		{"votes for several slots are not added up", 1, [][]int{{4}, {2}, {3}, nil, nil}, nil, nil, false},
		{"no slot can have a quorum any more", 1, [][]int{{4}, {4}, {2}, {2}, {3}}, nil, nil, true},
		{"one can", 1, [][]int{{4}, {4}, {2}, {2}, nil}, nil, nil, false},
		{"two slots by different quorums", 2, [][]int{{1, 2}, {1, 2}, {1}, {2}, {3, 4}}, nil, []int{1, 2}, false},
		{"one of two slots", 2, [][]int{{1, 2}, {1, 2}, {1, 3}, {1, 4}, {1, 5}}, nil, nil, false},
		{"after an aim, only votes for its slots count", 1, [][]int{{4}, {4}, {4}, {2}, {2}}, []int{2}, nil, false},
		{"nobody has voted", 1, make([][]int, 5), nil, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			now := clock.System()
			in := New(5, noDrift).Begin("a")
			c := permitsOf(in, "T", now, row.n, 10)
			in.SetClaim(c)
			for i, slots := range row.votes {
				if slots != nil {
					c.voteLocked(i, vote{mark: now, life: time.Minute, slots: slots})
				}
			}
			if row.aim != nil {
				c.Aim(row.aim)
				c.voteLocked(0, vote{mark: now, life: time.Hour, slots: []int{4}})
			}
			n := c.Count(now, 0)
			mine, won := n.Mine, n.Won
			if (won != nil) != (row.won != nil) || won != nil && !slices.Equal(won.Slots, row.won) {
				t.Errorf("won = %+v, want %v", won, row.won)
			}
			for i, slots := range row.votes {
				counts := slots != nil && (row.aim == nil || slices.Contains(slots, row.aim[0]))
				if mine>>i&1 == 1 != counts {
					t.Errorf("the vote of master %d counts: %t, want %t", i, !counts, counts)
				}
			}
			for range 2 {
				if got := c.Split(now); got != row.split {
					t.Errorf("Split = %t, want %t", got, row.split)
				}
			}
		})
	}
}

// A claim needs a quorum for each of its slots. It lasts for as long as the earliest vote that it needs, and rests on the votes that last the longest.
func TestAClaimOnSlotsWinsByAQuorumForEach(t *testing.T) {
	const ms = time.Millisecond
	type v struct {
		slots     []int
		life, age time.Duration
	}
	for _, row := range []struct {
		name    string
		n       int
		votes   [3]v
		won     []int
		left    time.Duration
		masters uint64
	}{
		{"the longest votes", 1, [3]v{{[]int{4}, 300 * ms, 0}, {[]int{4}, 100 * ms, 0}, {[]int{4}, 200 * ms, 0}}, []int{4}, 190 * ms, 0b101},
		{"the slot with the most votes", 1, [3]v{{[]int{4, 5}, 300 * ms, 0}, {[]int{4, 5}, 200 * ms, 0}, {[]int{5}, 100 * ms, 0}}, []int{5}, 190 * ms, 0b011},
		{"the lower slot of two with as many", 1, [3]v{{[]int{5, 4}, 300 * ms, 0}, {[]int{5, 4}, 200 * ms, 0}, {}}, []int{4}, 190 * ms, 0b011},
		{"several", 2, [3]v{{[]int{7}, 300 * ms, 0}, {[]int{2, 7}, 200 * ms, 0}, {[]int{2, 7}, 100 * ms, 0}}, []int{2, 7}, 90 * ms, 0b111},
		{"several, the first of which ends earlier", 2, [3]v{{[]int{2, 7}, 100 * ms, 0}, {[]int{2, 7}, 200 * ms, 0}, {[]int{7}, 300 * ms, 0}}, []int{2, 7}, 90 * ms, 0b111},
		{"a vote that is over", 1, [3]v{{[]int{4}, 300 * ms, 0}, {[]int{4}, 300 * ms, 300 * ms}, {}}, nil, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := time.Now()
			now := clock.At(at, at, 0)
			in := New(3, tenMillis).Begin("a")
			c := permitsOf(in, "T", now, row.n, 10)
			in.SetClaim(c)
			for i, v := range row.votes {
				if v.life > 0 {
					c.voteLocked(i, vote{mark: clock.At(at.Add(-v.age), at.Add(-v.age), 0), life: v.life, slots: v.slots})
				}
			}
			won := c.Count(now, 0).Won
			if (won != nil) != (row.won != nil) || won != nil && (!slices.Equal(won.Slots, row.won) || won.Left != row.left || won.masters != row.masters) {
				t.Errorf("the quorum is %+v, want slots %v for %v by %b", won, row.won, row.left, row.masters)
			}
		})
	}
}

// A poll that finds the claim gone from the queue, and its key too, is answered while the lease is made.
func TestAVoteWhoseKeyIsGoneDoesNotCount(t *testing.T) {
	now := clock.System()
	gone := wire.Answer{Outcome: wire.Taken, New: true}
	for _, row := range []struct {
		name   string
		votes  int // those of the first two masters last longer
		kind   wire.Kind
		answer wire.Answer
		from   int
		wins   bool
	}{
		{"a master of the quorum", 2, wire.Again, gone, 0, false},
		{"the answer to the registration comes behind the message", 2, wire.Register, gone, 0, true},
		{"the claim was still in the queue", 2, wire.Again, wire.Answer{Outcome: wire.Taken}, 0, true},
		{"a master without a vote", 2, wire.Again, gone, 2, true},
		{"a master that the quorum does not need", 3, wire.Again, gone, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in := s.Begin("a")
			c := in.NewClaim(new(master.SentClaim), now, 0, 0, 0)
			in.SetClaim(c)
			for i := range row.votes {
				c.voteLocked(i, vote{mark: now, life: time.Second - time.Duration(i)*time.Millisecond})
			}
			m := c.Count(now, 0).Won
			c.Answered(row.from, Command{Kind: row.kind, Mark: now, Life: time.Second}, row.answer, true)
			elsewhere, queued, got := c.Won(m, func(int) {}, nil)
			if elsewhere|queued != 0 {
				t.Errorf("a claim on a lock stands elsewhere at %b, and in the queue at %b", elsewhere, queued)
			}
			if got != row.wins {
				t.Errorf("the claim wins: %v, want %v", got, row.wins)
			}
			if m := c.Count(now, 0).Won; (m != nil) != row.wins {
				t.Errorf("a quorum is left: %v, want %v", m != nil, row.wins)
			}
		})
	}
}

// Where the token of a lease stands in other slots, or in the queue, its holder settles it: for what is known when the claim wins, and for what an answer says
// later.
func TestAClaimThatHasWonSlotsLeavesAllOthers(t *testing.T) {
	now := clock.System()
	taken := wire.Answer{Outcome: wire.Taken}
	for _, row := range []struct {
		name              string
		gone, aimed       bool
		elsewhere, queued uint64
		won               bool
		settles           []int // the masters that are settled by later answers
	}{
		{"a claim", false, false, 0b01000, 0b10000, true, []int{1, 2}},
		{"one that has aimed", false, true, 0, 0, true, nil},
		{"a vote has become void", true, false, 0, 0, false, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(6, noDrift)
			in := s.Begin("a")
			c := permitsOf(in, "T", now, 1, 10)
			in.SetClaim(c)
			c.Answered(0, Command{Kind: wire.Register, Mark: now, Life: time.Minute}, taken, true) // it grants the slot later; the last one does not answer
			c.Answered(4, Command{Kind: wire.Register, Mark: now, Life: time.Minute}, taken, true)
			for i, slots := range [][]int{{4}, {4}, {4}, {4, 5}} {
				c.voteLocked(i, vote{mark: now, life: time.Minute, slots: slots})
			}
			if row.aimed {
				c.Aim([]int{4})
			}
			q := c.Count(now, 0).Won
			if q == nil {
				t.Fatal("there is no quorum")
			}
			if row.gone {
				c.Answered(0, Command{Kind: wire.Again, Mark: now, Life: time.Minute}, wire.Answer{Outcome: wire.Taken, New: true}, true)
			}
			var settled []int
			elsewhere, queued, won := c.Won(q, func(int) {}, func(i int) { settled = append(settled, i) })
			if elsewhere != row.elsewhere || queued != row.queued || won != row.won {
				t.Errorf("Won = %b, %b, %t, want %b, %b, %t", elsewhere, queued, won, row.elsewhere, row.queued, row.won)
			}
			for i, a := range []wire.Answer{{Outcome: wire.Granted, Slots: "4"}, taken, {Outcome: wire.Granted, Slots: "4,6"}, {Outcome: wire.Missing}} {
				c.Answered(i, Command{Kind: wire.Again, Mark: now, Life: time.Minute}, a, true)
			}
			if !slices.Equal(settled, row.settles) {
				t.Errorf("masters %v are settled, want %v", settled, row.settles)
			}
		})
	}
}
