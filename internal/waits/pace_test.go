package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A claim whose registration is a young mark of a grant is not told that it becomes near. So it must expect that.
func TestAClaimThatIsNotToldThatItIsNearExpectsIt(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		turnaround time.Duration
		ahead      int
		want       bool
	}{
		{0, 75, true}, {0, 76, false}, // no turn is known
		{40 * ms, 15, true}, {40 * ms, 1000, true},
		{160 * ms, 4, true},     // it becomes near after 64 ms
		{470 * ms, 1000, true},  // after 470 ms
		{490 * ms, 1000, false}, // after 490 ms
		{1600 * ms, 3, true},    // after 400 ms
		{2000 * ms, 3, false},   // after 500 ms
		{7 * 24 * time.Hour, 1 << 20, false},
	} {
		p, c := &Pace{step: Step, turnaround: row.turnaround}, &Claim{G: time.Second, places: places{front: wire.Near}}
		if got := p.untold(c, row.ahead); got != row.want {
			t.Errorf("untold = %v, with %d ahead and a turnaround of %v, want %v", got, row.ahead, row.turnaround, row.want)
		}
	}
}

// A Client that takes turns is likely to have the lock again before its claim polls.
func TestAFarClaimPollsFirstWhenItsClientIsLikelyToHaveTheLock(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		turnaround   time.Duration
		ahead, slots int
		g            time.Duration // 0: a second
		want         time.Duration
	}{
		{0, 30, 0, 0, 200 * ms},  // it may be near soon, and is not told then
		{0, 76, 0, 0, 1000 * ms}, // it is told
		{50 * ms, 90, 0, 0, 200 * ms},
		{130 * ms, 90, 0, 0, 260 * ms},
		{400 * ms, 90, 0, 0, 600 * ms},
		{900 * ms, 400, 0, 0, 1800 * ms},                     // it is told
		{time.Minute, 400, 0, 0, 4000 * ms},                  // it must not be taken for that of a stopped client
		{10 * time.Second, 3, 0, 8 * time.Second, 4000 * ms}, // nor then, where masters are far and it may be near soon
		{0, 75, 1, 0, 200 * ms},
		{0, 76, 1, 0, 1000 * ms},
	} {
		p, c := &Pace{step: Step, turnaround: row.turnaround}, &Claim{G: time.Second, places: places{front: wire.Near}, slots: row.slots}
		if row.g > 0 {
			c.G = row.g
		}
		if got := p.firstPoll(c, row.ahead); got != row.want {
			t.Errorf("a claim on %d slots with %d ahead, after a turn of %v, polls first after %v, want %v", row.slots, row.ahead, row.turnaround, got, row.want)
		}
	}
}

// A claim that is far polls one master at a time. So it polls each seldom, and one or another of them often.
func TestAFarClaimPollsAMasterTheLessOftenTheMoreAreAhead(t *testing.T) {
	const second = time.Second
	for _, row := range []struct {
		ahead, masters int
		want           time.Duration
	}{
		{4, 1, 400 * time.Millisecond}, {4, 5, 2 * second}, {12, 5, 6 * second}, {100, 5, 6 * second}, {150, 5, 9 * second},
		{400, 5, 10 * second}, {100, 1, 6 * second}, {1000, 3, 10 * second},
	} {
		if got := FarPolls(Step, row.ahead, row.masters); got != row.want {
			t.Errorf("with %d ahead, a claim polls each of %d masters after %v, want %v", row.ahead, row.masters, got, row.want)
		}
	}
}

// granted returns the vote of a master that has granted a command.
func granted() quorum.Vote { return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Granted}} }

// refused returns the vote of a master where another token stands.
func refused(left time.Duration, standing string) quorum.Vote {
	return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken, Left: left, Standing: standing}}
}

// failed returns the vote of a master that has not said whose the key is.
func failed(left time.Duration, standing string) quorum.Vote {
	return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Missing, Left: left, Standing: standing}}
}

func TestFreeAfterIsWhenTheKeysOfAQuorumHaveExpired(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name  string
		votes []quorum.Vote
		want  time.Duration
		known bool
	}{
		{"the second of three", []quorum.Vote{refused(300*ms, "A"), refused(80*ms, "A"), refused(90*ms, "A")}, 90 * ms, true},
		{"one is ours", []quorum.Vote{refused(300*ms, "A"), granted(), refused(90*ms, "A")}, 90 * ms, true},
		{"a quorum is ours", []quorum.Vote{granted(), granted(), refused(90*ms, "A")}, 0, true},
		{"one is not known", []quorum.Vote{refused(wire.Unknown, "A"), refused(80*ms, "A"), refused(90*ms, "A")}, 90 * ms, true},
		{"too few are known", []quorum.Vote{refused(wire.Unknown, "A"), refused(80*ms, "A"), failed(90*ms, "A")}, 0, false},
		{"too few have answered", []quorum.Vote{{}, {}, refused(90*ms, "A")}, 0, false},
	} {
		if got, known := FreeAfter(row.votes); got != row.want || known != row.known {
			t.Errorf("%s: FreeAfter = %v, %v, want %v, %v", row.name, got, known, row.want, row.known)
		}
	}
}

func TestTheRivalIsTheTokenThatMostMastersName(t *testing.T) {
	for _, row := range []struct {
		name    string
		votes   []quorum.Vote
		mine    uint64
		rival   string
		keys    int
		without uint64 // masters where another token than A is in the way
		reads   bool
	}{
		{"nobody", []quorum.Vote{granted(), {}, refused(0, "")}, 0, "", 0, 0b100, false},
		{"the token at most masters", []quorum.Vote{refused(0, "B"), refused(0, "A"), refused(0, "A")}, 0, "A", 2, 0b001, false},
		{"the smallest of two", []quorum.Vote{refused(0, "B"), refused(0, "A"), {}}, 0, "A", 1, 0b001, false},
		{"masters that have voted for the claim since", []quorum.Vote{refused(0, "B"), refused(0, "B"), refused(0, "C")}, 0b011, "C", 1, 0b111, false},
		{"a master that has not refused", []quorum.Vote{failed(0, "B"), refused(0, "A"), {Answer: refused(0, "B").Answer}}, 0, "A", 1, 0, false},
		{"readers, beside a claim of a writer", []quorum.Vote{refused(0, wire.ReadersMarker), refused(0, wire.ReadersMarker), refused(0, "A")}, 0, wire.ReadersMarker, 2, 0b011, false},
		{"readers, beside that of a reader", []quorum.Vote{refused(0, wire.ReadersMarker), refused(0, wire.ReadersMarker), refused(0, "A")}, 0, "A", 1, 0b011, true},
	} {
		if rival, keys := Rival(row.votes, row.mine, row.reads); rival != row.rival || keys != row.keys {
			t.Errorf("%s: Rival = %q, %d, want %q, %d", row.name, rival, keys, row.rival, row.keys)
		}
		if got := Without(row.votes, "A"); got != row.without {
			t.Errorf("%s: Without = %b, want %b", row.name, got, row.without)
		}
	}
}

// The group of these tests has no master: so the distance is 0, nothing is random, and no claim is far.
func TestAClaimWithVotesAsksSoonWhoHasTheOtherKeys(t *testing.T) {
	at := time.Unix(1000, 0)
	now := func() clock.Reading { return clock.At(at, at, 0) }
	group := quorum.NewGroup(nil)
	p, in := NewPace(group, Step), New(3, noDrift).Begin("a")
	c := claimOf(in, "mine")
	p.poll = at.Add(time.Hour)
	as := func(d time.Duration) time.Duration { return d }
	due := func(voted bool, want time.Duration) {
		t.Helper()
		if got := p.Next(c, now(), voted, as).Sub(at); got != want {
			t.Errorf("the next round is due after %v, want %v", got, want)
		}
	}
	due(false, time.Hour)
	due(true, SplitAfter)
	at = at.Add(time.Millisecond)
	due(true, SplitAfter-time.Millisecond) // counted from the first vote
	p.Sent()
	p.Again = true
	due(true, 0) // the second question follows at once
	p.Registered(0)
	p.Sent()
	for range splitRoundsMost + 2 {
		p.FoundSplit(at)
	}
	due(true, 4*SplitAfter) // two rounds too many
	p.Sent()
	for range 20 {
		p.FoundSplit(at)
	}
	due(true, 64*SplitAfter) // 128 ms: no less than Step
	p.Sent()
	at = at.Add(splitRoundsFor + time.Millisecond)
	due(true, SplitAfter) // they were long ago
	due(false, time.Hour-splitRoundsFor-2*time.Millisecond)
	pauses := func(c *Claim, steps time.Duration) {
		t.Helper()
		p.One = true
		p.Pause(c, now(), false, as)
		if d := p.poll.Sub(at); p.Far || p.One || d < steps*Step/2 || d > steps*Step*3/2 {
			t.Errorf("the next poll is due after %v, far %t, one %t, want %d pauses", d, p.Far, p.One, steps)
		}
	}
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	permit := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now(), time.Minute, 1, 8)
	pauses(c, 1)
	for _, c := range []*Claim{c, permit} {
		for i := range 2 {
			c.Answered(i, Command{Kind: wire.Again, Mark: now(), Life: time.Second}, wire.Answer{Outcome: wire.Taken, Ahead: 20}, true)
		}
	}
	pauses(c, followSteps) // others watch the keys, too
	for i := range 2 {
		c.Answered(i, Command{Kind: wire.Again, Mark: now(), Life: time.Second}, wire.Answer{Outcome: wire.Taken, Ahead: 1}, true)
	}
	pauses(c, behindSteps) // the head watches them
	pauses(permit, 1)
}

// A claim that was far polls soon if it has become near, was passed over, or a master has come up.
func TestAClaimThatWasFarPollsSoon(t *testing.T) {
	at := time.Unix(1000, 0)
	now := clock.At(at, at, 0)
	as := func(d time.Duration) time.Duration { return d }
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	slots := func(in *Inbox) *Claim {
		return in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 1, 8)
	}
	lock := func(in *Inbox) *Claim { return claimOf(in, "mine") }
	for _, row := range []struct {
		name     string
		claim    func(*Inbox) *Claim
		ahead    int
		passed   bool
		returned bool
		poll     time.Duration // when the next poll was due
		least    time.Duration // when it is
		most     time.Duration
		far, one bool
	}{
		{"it is near", lock, 0, false, false, time.Hour, 0, Step, false, false},
		{"it is near, and polls sooner", lock, 0, false, false, 0, 0, 0, false, false},
		{"it is far", lock, 3, false, false, time.Hour, time.Hour, time.Hour, true, true},
		{"a master has come up", lock, 20, false, true, time.Hour, 0, returnMost * Step, true, false},
		{"it is near, and a master has come up", lock, 0, false, true, time.Hour, 0, Step, false, false},
		{"on slots, it is among the first", slots, 2, false, false, time.Hour, 0, Step, false, false},
		{"on slots, it is near", slots, 5, false, false, time.Hour, nearSteps * Step, nearSteps * Step, true, true},
		{"on slots, it was passed over", slots, 5, true, false, time.Hour, 0, Step, true, true},
		{"on slots, it is far", slots, 8, true, false, time.Hour, time.Hour, time.Hour, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := New(3, noDrift).Begin("a")
			c := row.claim(in)
			in.SetClaim(c)
			for i := range 3 {
				c.Answered(i, Command{Kind: wire.Again, Mark: now, Life: time.Minute}, wire.Answer{Outcome: wire.Taken, Ahead: row.ahead}, true)
			}
			c.passed, c.returned = row.passed, row.returned
			p := NewPace(quorum.NewGroup(nil), Step)
			p.Far, p.One, p.poll = true, true, at.Add(row.poll)
			due := p.Next(c, now, false, as).Sub(at)
			if due < row.least || due > row.most || p.Far != row.far || p.One != row.one {
				t.Errorf("it polls after %v, far %t, one %t; want %v to %v, %t, %t", due, p.Far, p.One, row.least, row.most, row.far, row.one)
			}
			if !row.far {
				p.Pause(c, now, false, as)
				if d := p.poll.Sub(at); d < Step/2 || d > Step*3/2 {
					t.Errorf("then it polls after %v, want half a pause to one and a half", d)
				}
			}
		})
	}
}

// A claim on slots whose votes are split aims at once, and only once.
func TestAClaimOnSlotsWithSplitVotesAimsOnce(t *testing.T) {
	at := time.Unix(1000, 0)
	now := clock.At(at, at, 0)
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	in := New(3, noDrift).Begin("a")
	for _, row := range []struct {
		name   string
		claim  *Claim
		voters int
		split  bool
	}{
		{"on slots", in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 1, 8), 3, true},
		{"on slots, with a vote to come", in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 1, 8), 2, false},
		{"on a lock", claimOf(in, "mine"), 3, false},
	} {
		in.SetClaim(row.claim)
		for i := range row.voters {
			row.claim.voteLocked(i, vote{mark: now, life: time.Minute, slots: []int{i}})
		}
		p := NewPace(quorum.NewGroup(nil), Step)
		p.poll = at.Add(time.Hour)
		if row.split {
			if due := p.Next(row.claim, now, true, nil); due != at || !p.Split {
				t.Errorf("%s: the votes are split, and it asks after %v", row.name, due.Sub(at))
			}
			p.Sent()
		} else if !row.claim.OfSlots() { // whose votes are for nothing but the lock
			for i := range row.claim.at {
				row.claim.at[i].vote = vote{mark: now, life: time.Minute, slots: []int{i + 1}}
			}
		}
		if due := p.Next(row.claim, now, true, nil); due != at.Add(SplitAfter) || p.Split != row.split {
			t.Errorf("%s: it asks after %v, want %v", row.name, due.Sub(at), SplitAfter)
		}
		p.turnaround = time.Second
		p.Registered(2 * time.Second)
		if p.Split || p.turnaround != 2*time.Second {
			t.Errorf("%s: of a new claim, the votes are split: %t, and the last turn took %v", row.name, p.Split, p.turnaround)
		}
	}
}

// A Client whose claims are all far is expected to say less often that it runs.
func TestAClientThatIsFarIsUnheardForLonger(t *testing.T) {
	for _, row := range []struct{ ahead, want int }{{2, 0}, {3, 15}, {50, 60}, {400, 100}} {
		s := New(5, noDrift)
		in := s.Begin("a")
		c := claimOf(in, "mine")
		in.SetClaim(c)
		for i := range 5 {
			c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Minute}, wire.Answer{Outcome: wire.Taken, Ahead: row.ahead}, true)
		}
		if _, far := s.Patience(quorum.NewGroup(nil), Step); far != time.Duration(row.want)*Step*5/4 {
			t.Errorf("with %d ahead, it is unheard for %v, want %d pauses and a quarter", row.ahead, far, row.want)
		}
	}
}
