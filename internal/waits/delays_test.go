package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

type backOffFunc func() time.Duration

func (f backOffFunc) NextBackOff() time.Duration { return f() }

// counting returns schedules whose delays are 1 ms, 2 ms, and so on, and which stop after n.
func counting(n int) func() Schedule {
	return func() Schedule {
		last := 0
		return backOffFunc(func() time.Duration {
			if last++; last > n {
				return -1
			}
			return time.Duration(last) * time.Millisecond
		})
	}
}

// A wait that must not stop goes on with the longest delay.
func TestAScheduleThatStopsIsContinued(t *testing.T) {
	for _, row := range []struct {
		name    string
		forever bool
		delays  int
		want    []time.Duration
	}{
		{"it goes on", true, 2, []time.Duration{1, 2, 2, 2}},
		{"it never had a delay", true, 0, []time.Duration{7, 7}},
		{"it stops", false, 2, []time.Duration{1, 2, -1}},
	} {
		d := Delays{Start: counting(row.delays), Forever: row.forever, Default: 7 * time.Millisecond}
		for i, want := range row.want {
			got, more := d.Next()
			if more != (want > 0) || more && got != want*time.Millisecond {
				t.Errorf("%s: delay %d is %v, %v, want %dms", row.name, i+1, got, more, want)
			}
		}
	}
}

func TestAPauseEndsWhenTheKeysExpire(t *testing.T) {
	const ms = time.Millisecond
	group := quorum.NewGroup(nil)
	for _, row := range []struct {
		d, left, elapsed, least, most time.Duration
	}{
		{100 * ms, 90 * ms, 10 * ms, 81 * ms, 86 * ms},
		{100 * ms, 110 * ms, 10 * ms, 100 * ms, 100 * ms},
		{100 * ms, 500 * ms, 10 * ms, 100 * ms, 100 * ms},
		{100 * ms, 90 * ms, 200 * ms, 1 * ms, 6 * ms},
	} {
		if got := NotPast(row.d, row.left, row.elapsed, group); got < row.least || got > row.most {
			t.Errorf("NotPast(%v, %v, %v) = %v, want %v to %v", row.d, row.left, row.elapsed, got, row.least, row.most)
		}
	}
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
