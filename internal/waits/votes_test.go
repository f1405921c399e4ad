package waits

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// claimOf returns a claim with this token on the key "a", and with a g of 400 ms.
func claimOf(in *Inbox, token string) *Claim {
	terms := wire.NewTerms("a", time.Second)
	return in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: token}), clock.System(), 400*time.Millisecond, 0, 0)
}

// mastersWhere returns the masters, as bits, of which is reports true.
func mastersWhere(c *Claim, is func(*atMaster) bool) (masters uint64) {
	for i := range c.at {
		if is(&c.at[i]) {
			masters |= 1 << i
		}
	}
	return masters
}

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

func TestOfTwoVotesOfAMasterTheOneThatEndsLaterCounts(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		early := clock.System()
		time.Sleep(100 * time.Millisecond)
		late := clock.System()
		for _, row := range []struct {
			name          string
			first, second vote
			want          vote
		}{
			{"the first", vote{mark: early, life: time.Second, fence: 70}, vote{mark: late, life: 400 * time.Millisecond, fence: 71}, vote{mark: early, life: time.Second, fence: 71}},
			{"the second", vote{mark: early, life: time.Second, fence: 72}, vote{mark: late, life: time.Second, fence: 71}, vote{mark: late, life: time.Second, fence: 72}},
			{"only one", vote{fence: 70}, vote{mark: early, life: time.Second}, vote{mark: early, life: time.Second, fence: 70}},
		} {
			in := New(3, noDrift).Begin("a")
			c := claimOf(in, "mine")
			in.SetClaim(c)
			c.voteLocked(1, row.first)
			began := c.firstVote
			time.Sleep(time.Millisecond)
			c.voteLocked(1, row.second)
			if got := c.at[1].vote; got.mark != row.want.mark || got.life != row.want.life || got.fence != row.want.fence {
				t.Errorf("%s: the vote is %+v, want %+v", row.name, got, row.want)
			}
			if had := mastersWhere(c, func(m *atMaster) bool { return m.had }); began.IsZero() || c.firstVote != began || had != 0b010 {
				t.Errorf("%s: the first vote was at %v, then at %v, of masters %b", row.name, began, c.firstVote, had)
			}
		}
	})
}

func TestAGrantIsAVoteForItsClaimOnly(t *testing.T) {
	before := clock.System()
	time.Sleep(2 * time.Millisecond)
	after := func() clock.Reading { return clock.System() }
	for _, row := range []struct {
		name     string
		g        master.Grant
		noClaim  bool
		ended    bool
		expected bool // this Client has queued for the key
		votes    bool
		poll     bool
	}{
		{name: "its own", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: true, Fence: 70}, expected: true, votes: true},
		{name: "from before the claim", g: master.Grant{Key: "a", Token: "mine", Mark: before, Sure: true, Fence: 70}, expected: true, votes: true},
		{name: "of a memory that is not known", g: master.Grant{Key: "a", Token: "mine", Mark: after()}, expected: true, poll: true},
		{name: "for another claim", g: master.Grant{Key: "a", Token: "former", Mark: after(), Sure: true}, expected: true},
		{name: "without a claim", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: true}, noClaim: true, expected: true},
		{name: "for another key", g: master.Grant{Key: "b", Token: "mine", Mark: after(), Sure: true}},
		{name: "for a wait that has ended", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: true}, ended: true, expected: true},
		{name: "for slots of a claim that is not known", g: master.Grant{Key: "a", Token: "mine", Slots: "1", Mark: after(), Sure: true}, expected: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in := s.Begin("a")
			c := claimOf(in, "mine")
			c.G = time.Hour
			if !row.noClaim {
				in.SetClaim(c)
			}
			if row.ended {
				in.End()
			}
			if got := s.Granted(1, row.g); got != row.expected {
				t.Errorf("the grant was expected: %v, want %v", got, row.expected)
			}
			told, polls := false, false
			select {
			case <-in.News:
				told = true
			default:
			}
			select {
			case <-in.Poll:
				polls = true
			default:
			}
			v := c.at[1].vote
			if told != row.votes || (v.life > 0) != row.votes || polls != row.poll {
				t.Errorf("the vote is %+v, told %v, a poll is due: %v; want a vote: %v, a poll: %v", v, told, polls, row.votes, row.poll)
			}
			want := row.g.Mark
			if c.Began.Time().After(want.Time()) {
				want = c.Began
			}
			if row.votes && (v.mark != want || v.fence != 70) {
				t.Errorf("the vote is %+v, want one that counts from no time before the claim, with the fence 70", v)
			}
		})
	}
}

func TestAnAnswerToACommandOfAClaimIsAVote(t *testing.T) {
	const far = wire.Near
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		answer wire.Answer
		life   time.Duration // of the vote; 0: none
		queued bool
	}{
		{"granted", wire.Register, wire.Answer{Outcome: wire.Granted}, time.Second, false},
		{"granted before", wire.Again, wire.Answer{Outcome: wire.Granted, Holds: 300 * time.Millisecond}, 300 * time.Millisecond, false},
		{"refused", wire.Register, wire.Answer{Outcome: wire.Taken, Holds: time.Hour}, 0, true},
		{"refused behind several", wire.Register, wire.Answer{Outcome: wire.Taken, Ahead: far}, 0, true},
		{"a poll behind several", wire.Again, wire.Answer{Outcome: wire.Taken, Ahead: far}, 0, true},
		{"granted before several", wire.Register, wire.Answer{Outcome: wire.Granted, Ahead: far}, time.Second, false},
		{"failed", wire.Register, wire.Answer{Err: errors.New("lost")}, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := New(3, noDrift).Begin("a")
			c := claimOf(in, "mine")
			in.SetClaim(c)
			for i := range 2 {
				near := c.Answered(i, Command{Kind: row.kind, Mark: c.Began, Life: time.Second}, row.answer, true)
				if want := row.queued && row.answer.Ahead < wire.Near; near != want {
					t.Errorf("the claim is near: %v, want %v", near, want)
				}
			}
			queued := mastersWhere(c, func(m *atMaster) bool { return m.queued })
			if v := c.at[1].vote; v.life != row.life || (queued == 0b011) != row.queued {
				t.Errorf("the vote is %+v, queued %b; want a life of %v, %v", v, queued, row.life, row.queued)
			}
			c.Answered(1, Command{Kind: wire.Again, Mark: c.Began, Life: time.Second}, wire.Answer{Err: errors.New("lost")}, true)
			if c.at[1].queued {
				t.Error("the claim is said to be in a queue although the last answer was lost")
			}
			if c.refused != row.queued {
				t.Errorf("a master has refused the claim: %v, want %v, whatever others answer later", c.refused, row.queued)
			}
			former := claimOf(in, "former") // which the wait has given up
			former.Answered(1, Command{Kind: row.kind, Mark: c.Began, Life: time.Second}, row.answer, true)
			if had := former.at[1].had; had != (row.answer.Err == nil) {
				t.Errorf("a master has had a claim that was given up: %v", had)
			}
		})
	}
}

// Once the claim has become a lease, a late poll may show that a master had lost the key: see Answered.
func TestALatePollOfALeaseCausesADoubt(t *testing.T) {
	gone, lost := wire.Answer{Outcome: wire.Taken, New: true}, wire.Answer{Err: errors.New("lost")}
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		from   int // master 2 has never had the claim
		answer wire.Answer
		want   bool
	}{
		{"a key that is gone", wire.Again, 0, gone, true},
		{"an answer that was lost", wire.Again, 0, lost, true},
		{"a key that is there", wire.Again, 0, wire.Answer{Outcome: wire.Granted, Holds: time.Second}, false},
		{"a registration", wire.Register, 0, gone, false},
		{"a registration whose answer was lost", wire.Register, 0, lost, false},
		{"a renewal whose answer was lost", wire.Renew, 0, lost, false},
		{"a master that has never had the claim", wire.Again, 2, gone, false},
		{"the lost answer of a master that has never had the claim", wire.Again, 2, lost, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in := s.Begin("a")
			c := claimOf(in, "mine")
			in.SetClaim(c)
			for i := range 2 {
				c.Answered(i, Command{Kind: wire.Register, Mark: c.Began, Life: time.Second}, wire.Answer{Outcome: wire.Granted}, true)
			}
			won := c.Count(clock.System(), 0).Won
			doubted := -1
			if won == nil {
				t.Fatal("there is no quorum")
			}
			if _, _, ok := c.Won(won, func(i int) { doubted = i }, nil); !ok {
				t.Fatal("the claim does not win")
			}
			s.Granted(0, master.Grant{Key: "a", Token: "mine", Mark: clock.System(), Sure: true, Fence: 99})
			if c.at[0].vote.fence == 99 {
				t.Error("a lease is granted the lock")
			}
			c.Answered(row.from, Command{Kind: row.kind, Mark: clock.System(), Life: time.Second}, row.answer, true)
			if row.want && doubted != row.from || !row.want && doubted != -1 {
				t.Errorf("a doubt about master %d, want one: %v", doubted, row.want)
			}
			given := claimOf(in, "given up") // it has no lease
			for i := range given.at {
				given.at[i].had = true
			}
			given.Answered(row.from, Command{Kind: row.kind, Mark: clock.System(), Life: time.Second}, row.answer, true)
		})
	}
}

func TestAWaitIsToldWhenAnAnswerIsCounted(t *testing.T) {
	in := New(3, noDrift).Begin("a")
	claimOf(in, "mine").Counted()
	select {
	case <-in.News:
	default:
		t.Error("it is not told")
	}
}

func noDrift(time.Duration) time.Duration { return 0 }

func tenMillis(time.Duration) time.Duration { return 10 * time.Millisecond }
