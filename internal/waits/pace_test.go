package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A claim that has joined its queue in the last 150 ms is not told that it becomes near. So it must expect that.
func TestAClaimThatIsNotToldThatItIsNearExpectsIt(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		turn  time.Duration
		ahead int
		want  bool
	}{
		{0, 75, true}, {0, 76, false}, // no turn is known
		{40 * ms, 15, true}, {40 * ms, 1000, true},
		{160 * ms, 4, true},     // it becomes near after 64 ms
		{160 * ms, 1000, true},  // after 160 ms, of turns that differ
		{320 * ms, 3, true},     // after 80 ms
		{320 * ms, 1000, false}, // after 320 ms
		{1600 * ms, 3, false},   // after 400 ms
		{7 * 24 * time.Hour, 1 << 20, false},
	} {
		if got := nearSoon(row.turn, row.ahead); got != row.want {
			t.Errorf("nearSoon(%v, %d) = %v, want %v", row.turn, row.ahead, got, row.want)
		}
	}
}

// A Client that takes turns is likely to have the lock again before its claim polls.
func TestTheFirstPollOfAFarClaim(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		turn         time.Duration
		ahead, slots int
		want         time.Duration
	}{
		{0, 30, 0, 200 * ms},  // it may be near soon, and is not told then
		{0, 76, 0, 1000 * ms}, // it is told
		{50 * ms, 90, 0, 200 * ms},
		{130 * ms, 90, 0, 260 * ms},
		{400 * ms, 90, 0, 1000 * ms}, // it is told
		{900 * ms, 400, 0, 1800 * ms},
		{time.Minute, 400, 0, 4000 * ms}, // it must not be taken for that of a stopped client
		{130 * ms, 90, 1, 1000 * ms},
	} {
		p := &Pace{step: Step, turn: row.turn}
		if got := p.firstPoll(&Claim{Near: wire.Near, slots: row.slots}, row.ahead); got != row.want {
			t.Errorf("a claim on %d slots with %d ahead, after a turn of %v, polls first after %v, want %v", row.slots, row.ahead, row.turn, got, row.want)
		}
	}
}

// A claim that is far polls one master at a time. So it polls each seldom, and one or another of them often.
func TestHowOftenAFarClaimPollsAMaster(t *testing.T) {
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

func TestWhenTheKeysOfAQuorumExpire(t *testing.T) {
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

func TestWhoIsInTheWay(t *testing.T) {
	for _, row := range []struct {
		name    string
		votes   []quorum.Vote
		mine    uint64
		rival   string
		keys    int
		without uint64 // masters where another token than A is in the way
	}{
		{"nobody", []quorum.Vote{granted(), {}, refused(0, "")}, 0, "", 0, 0b100},
		{"the token at most masters", []quorum.Vote{refused(0, "B"), refused(0, "A"), refused(0, "A")}, 0, "A", 2, 0b001},
		{"the smallest of two", []quorum.Vote{refused(0, "B"), refused(0, "A"), {}}, 0, "A", 1, 0b001},
		{"masters that have voted for the claim since", []quorum.Vote{refused(0, "B"), refused(0, "B"), refused(0, "C")}, 0b011, "C", 1, 0b111},
		{"a master that has not refused", []quorum.Vote{failed(0, "B"), refused(0, "A"), {Answer: refused(0, "B").Answer}}, 0, "A", 1, 0},
	} {
		if rival, keys := Rival(row.votes, row.mine); rival != row.rival || keys != row.keys {
			t.Errorf("%s: Rival = %q, %d, want %q, %d", row.name, rival, keys, row.rival, row.keys)
		}
		if got := Without(row.votes, "A"); got != row.without {
			t.Errorf("%s: Without = %b, want %b", row.name, got, row.without)
		}
	}
}

// The group of these tests has no master: so the distance is 0, nothing is random, and no claim is far.
func TestWhenAClaimAsksWhoHasTheOtherKeys(t *testing.T) {
	at := time.Unix(1000, 0)
	now := func() clock.Reading { return clock.At(at, at, 0) }
	group := quorum.NewGroup(nil)
	p := New(3).Begin("a").NewPace(group, Step, nil)
	c := claimOf("mine", 3)
	p.poll = at.Add(time.Hour)
	as := func(d time.Duration) time.Duration { return d }
	due := func(voted, beaten bool, want time.Duration) {
		t.Helper()
		if got := p.Due(c, now(), voted, beaten, as).Sub(at); got != want {
			t.Errorf("the next round is due after %v, want %v", got, want)
		}
	}
	due(false, false, time.Hour)
	due(true, false, SplitAfter)
	at = at.Add(time.Millisecond)
	due(true, false, SplitAfter-time.Millisecond) // counted from the first vote
	p.Sent()
	due(true, true, 0) // it is beaten: the second question follows at once
	p.Sent()
	for range splitRoundsMost + 2 {
		p.FoundSplit(at)
	}
	due(true, false, 4*SplitAfter) // two rounds too many
	p.Sent()
	for range 20 {
		p.FoundSplit(at)
	}
	due(true, false, 64*SplitAfter) // 128 ms: no less than Step
	p.Sent()
	at = at.Add(splitRoundsFor + time.Millisecond)
	due(true, false, SplitAfter) // they were long ago
	due(false, false, time.Hour-splitRoundsFor-2*time.Millisecond)
	pauses := func(steps time.Duration) {
		t.Helper()
		p.Pause(c, now(), false, as)
		if d := p.poll.Sub(at); p.Far() || p.One() || d < steps*Step/2 || d > steps*Step*3/2 {
			t.Errorf("the next poll is due after %v, far %t, one %t, want %d pauses", d, p.Far(), p.One(), steps)
		}
	}
	pauses(1)
	for i := range 2 {
		p.inbox.Answered(c, wire.Again, i, wire.Answer{Outcome: wire.Taken, Ahead: 20}, now(), time.Second, true)
	}
	pauses(followSteps) // others watch the keys, too
}
