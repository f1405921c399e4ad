package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A claim that is far is told when it becomes near. So it polls seldom.
func TestAFarClaimPollsSeldom(t *testing.T) {
	const ms = time.Millisecond
	as := func(d time.Duration) time.Duration { return d }
	lock := func(in *Inbox) *Claim { return claimOf(in, "mine") }
	slots := func(in *Inbox) *Claim { return permitsOf(in, "mine", clock.System(), 1, 8) } // eight are near
	reader := func(in *Inbox) *Claim {
		terms := wire.NewTerms("a", time.Second).ForReaders()
		return in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "mine"}), clock.System(), time.Second, 0, 0)
	}
	listening(t, func(t *testing.T, group *quorum.Group) {
		for _, row := range []struct {
			name     string
			on       func(*Inbox) *Claim
			ahead    int
			first    bool
			want     time.Duration // on average
			far, one bool
		}{
			{"the head", lock, 0, false, 0, false, false},
			{"first, and it may be near soon", lock, 30, true, 200 * ms, true, false},
			{"first", lock, 76, true, 1000 * ms, true, false},
			{"then", lock, 30, false, 3000 * ms, true, true},
			{"then, with fewer ahead", lock, 3, false, 300 * ms, true, true},
			{"on slots, among the first three", slots, 2, false, 0, false, false},
			{"on slots, near and first", slots, 7, true, 500 * ms, true, false},
			{"on slots, near", slots, 7, false, 500 * ms, true, false},
			{"on slots, nearer", slots, 4, false, 400 * ms, true, false},
			{"on slots, far and first", slots, 76, true, 1000 * ms, true, false},
			{"on slots, first, and it may be near soon", slots, 8, true, 200 * ms, true, false},
			{"on slots, far", slots, 8, false, 800 * ms, true, false},
			{"on slots, farther", slots, 400, false, 10_000 * ms, true, false},
			{"a reader, near", reader, wire.ReadersNear - 1, false, 500 * ms, true, false},
			{"a reader, far", reader, wire.ReadersNear, false, 1600 * ms, true, true},
		} {
			at := clock.System()
			in := New(3, noDrift).Begin("a")
			c := row.on(in)
			in.SetClaim(c)
			for i := range 3 {
				refuse(c, i, row.ahead, at)
			}
			least, most := row.want*3/4, row.want*5/4
			if row.want == 0 {
				least, most = Step/2, Step*3/2
			}
			for range 20 { // a part of it is random
				p := NewPace(group, Step)
				p.One = !row.one
				p.Pause(c, at, row.first, as)
				if d := p.poll.Sub(at.Time()); d < least || d > most || p.Far != row.far || p.One != row.one {
					t.Errorf("%s, with %d ahead: it polls after %v, far %t, one %t; want %v to %v, %t, %t", row.name, row.ahead, d, p.Far, p.One, least, most, row.far, row.one)
				}
			}
		}
	})
}

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
		{4, 1, 400 * time.Millisecond}, {4, 5, 2 * second}, {12, 5, 6 * second}, {100, 5, 10 * second}, {150, 5, 15 * second},
		{400, 5, 20 * second}, {100, 1, 10 * second}, {1000, 3, 20 * second},
	} {
		if got := FarPolls(Step, row.ahead, row.masters); got != row.want {
			t.Errorf("with %d ahead, a claim polls each of %d masters after %v, want %v", row.ahead, row.masters, got, row.want)
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
	p.PollAfter(now(), 70*time.Millisecond)
	due(false, 70*time.Millisecond)
}

// The group of this test has no subscriptions, so no claim is far.
func TestTheHeadPollsMoreOftenThanTheClaimsBehindIt(t *testing.T) {
	at := time.Unix(1000, 0)
	now := clock.At(at, at, 0)
	p, in := NewPace(quorum.NewGroup(nil), Step), New(3, noDrift).Begin("a")
	c, permit := claimOf(in, "mine"), permitsOf(in, "T", now, 1, 8)
	as := func(d time.Duration) time.Duration { return d }
	pauses := func(c *Claim, steps time.Duration) {
		t.Helper()
		for range 20 { // a part of it is random
			p.One = true
			p.Pause(c, now, false, as)
			if d := p.poll.Sub(at); p.Far || p.One || d < steps*Step/2 || d > steps*Step*3/2 {
				t.Errorf("the next poll is due after %v, far %t, one %t, want %d pauses", d, p.Far, p.One, steps)
			}
		}
	}
	pauses(c, 1)
	for _, c := range []*Claim{c, permit} {
		for i := range 2 {
			refuse(c, i, 1, now)
		}
	}
	pauses(c, behindSteps) // the head watches them
	pauses(permit, 1)
}

// A claim that was far polls soon if it has become near, was passed over, or a master has come up.
func TestAClaimThatWasFarPollsSoon(t *testing.T) {
	at := time.Unix(1000, 0)
	now := clock.At(at, at, 0)
	as := func(d time.Duration) time.Duration { return d }
	slots := func(in *Inbox) *Claim {
		return permitsOf(in, "T", now, 1, 8)
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
				refuse(c, i, row.ahead, now)
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
	in := New(3, noDrift).Begin("a")
	for _, row := range []struct {
		name   string
		claim  *Claim
		voters int
		split  bool
	}{
		{"on slots", permitsOf(in, "T", now, 1, 8), 3, true},
		{"on slots, with a vote to come", permitsOf(in, "T", now, 1, 8), 2, false},
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
