package waits

import (
	"testing"
	"time"

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
