package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// A wait may be woken, or find the votes split, again and again. Its delays then begin anew.
func TestAScheduleThatBeginsAnewStopsNoLater(t *testing.T) {
	delays := func() Schedule {
		n := 0
		return backOffFunc(func() time.Duration {
			if n++; n > 4 {
				return -1
			}
			return time.Duration(n) * time.Millisecond
		})
	}
	r := Delays{Start: delays}
	for i, want := range []time.Duration{1, 2, 1, 2} {
		if i == 2 {
			r.Reset()
		}
		if d, more := r.Next(); d != want*time.Millisecond || !more {
			t.Errorf("delay %d is %v, %v, want %dms", i+1, d, more, want)
		}
	}
	r.Reset()
	if d, more := r.Next(); more {
		t.Errorf("a fifth delay of %v, want none", d)
	}
}

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
		reset   int // before this call of Next; 0: never
		want    []time.Duration
	}{
		{"it goes on", true, 2, 0, []time.Duration{1, 2, 2, 2}},
		{"it never had a delay", true, 0, 0, []time.Duration{7, 7}},
		{"it has begun anew", true, 3, 3, []time.Duration{1, 2, 1, 2, 2}},
		{"it begins anew before it has begun", true, 2, 1, []time.Duration{1, 2, 2}},
		{"it stops", false, 2, 0, []time.Duration{1, 2, -1}},
	} {
		d := Delays{Start: counting(row.delays), Forever: row.forever, Default: 7 * time.Millisecond}
		for i, want := range row.want {
			if row.reset == i+1 {
				d.Reset()
			}
			got, more := d.Next()
			if more != (want > 0) || more && got != want*time.Millisecond {
				t.Errorf("%s: delay %d is %v, %v, want %dms", row.name, i+1, got, more, want)
			}
		}
	}
}

// The group of these tests has no master: so the distance is 0, and nothing is random.
func TestWhenTheNextAttemptIsDue(t *testing.T) {
	const ms = time.Millisecond
	group, now := quorum.NewGroup(nil), time.Unix(1000, 0)
	as := func(d time.Duration) time.Duration { return d }
	most := func(limit time.Duration) func(time.Duration) time.Duration {
		return func(d time.Duration) time.Duration { return min(d, limit) }
	}
	begin := func(p *Pauses, split bool, notPast func(time.Duration) time.Duration, want time.Duration) {
		t.Helper()
		at, more := p.Begin(New(3), group, now, split, true, notPast)
		if more != (want >= 0) || more && at.Sub(now) != want {
			t.Errorf("the next attempt is due after %v, %v, want %v", at.Sub(now), more, want)
		}
	}

	p := Pauses{Delays: Delays{Start: counting(30)}}
	begin(&p, false, as, 1*ms)
	begin(&p, false, as, 2*ms)
	if p.Recounts() != now {
		t.Errorf("votes are counted again at %v, want %v", p.Recounts(), now)
	}
	p.Attempt()
	if !p.Recounts().IsZero() {
		t.Error("the attempt has begun, and the votes of the one before are counted again")
	}
	begin(&p, true, as, 1*ms) // the first split: the delays begin anew
	if !p.Recounts().IsZero() {
		t.Error("the votes are split, and are counted again")
	}
	begin(&p, true, as, 2*ms) // the second does not
	begin(&p, true, most(1*ms), 1*ms)
	p.Woken()
	begin(&p, false, as, 1*ms)
	begin(&p, true, as, 1*ms) // the first again
	begin(&p, false, most(0), 0)

	// A late grant: the votes are found split after all.
	p = Pauses{Delays: Delays{Start: counting(9)}}
	begin(&p, false, as, 1*ms)
	begin(&p, false, as, 2*ms)
	later := now.Add(5 * ms)
	if at, more := p.Recount(later, false, later, as); at != later || !more || !p.Recounts().IsZero() {
		t.Errorf("nothing is split: %v, %v", at, more)
	}
	if at, more := p.Recount(later, true, now, as); at != later.Add(1*ms) || !more {
		t.Errorf("the votes are split: %v, %v, want 1ms later", at.Sub(later), more)
	}
	if at, more := p.Recount(later, true, now, as); at != later.Add(2*ms) || !more {
		t.Errorf("the votes are split again: %v, %v, want the delay before that attempt later", at.Sub(later), more)
	}
	p.Recount(later, false, later, as)
	if at, more := p.Recount(later, true, now, as); at != later.Add(1*ms) || !more {
		t.Errorf("the votes are split for the first time again: %v, %v, want 1ms later", at.Sub(later), more)
	}

	p = Pauses{Delays: Delays{Start: counting(1)}}
	begin(&p, false, as, 1*ms)
	begin(&p, false, as, -1)
	if at, more := p.Recount(later, true, now, as); more || at != later {
		t.Errorf("the schedule has stopped: %v, %v", at, more)
	}
}

// The longest pause of a wait that is woken makes its client wait for longer until it is taken for one that is stopped.
func TestTheLongestPauseIsNoted(t *testing.T) {
	s, group := New(3), quorum.NewGroup(nil)
	patience := func(want time.Duration) {
		t.Helper()
		if near, far := s.Patience(group, 100*time.Millisecond); near != want || far != 0 {
			t.Errorf("Patience = %v, %v, want %v", near, far, want)
		}
	}
	patience(500*time.Millisecond + responseLeast)
	p := Pauses{Delays: Delays{Start: counting(9)}}
	p.Begin(s, group, time.Now(), false, true, func(d time.Duration) time.Duration { return d })
	if got := s.longestPause.Load(); got != int64(time.Millisecond) {
		t.Errorf("the longest pause is %d ns, want 1 ms", got)
	}
	s.paused(2 * time.Second)
	s.paused(time.Second)
	patience(2100*time.Millisecond + responseLeast)
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
