package clock

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestALimitHasPassedWhenAnyClockSaysSo(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		name  string
		later Reading
		want  bool
	}{
		{"none", At(now.Add(999*time.Millisecond), now.Add(999*time.Millisecond), time.Minute), true},
		{"both", At(now.Add(time.Second), now.Add(time.Second), time.Minute), false},
		{"monotonic", At(now.Add(time.Second), now.Add(-time.Hour), time.Minute), false},
		{"wall", At(now, now.Add(time.Second), time.Minute), false},
		{"asleep", At(now, now, time.Minute+time.Second), false},
	} {
		shown := At(now, now, time.Minute)
		var l Limit
		l.Init(shown, time.Second)
		c := func() Reading { return shown }
		if l.Checked() || !l.Ahead(c) || !l.Checked() {
			t.Errorf("%s: the limit is not ahead at first, or Checked is wrong", row.name)
		}
		if shown = row.later; l.Ahead(c) != row.want {
			t.Errorf("%s: Ahead = %v, want %v", row.name, !row.want, row.want)
		}
		if now, ahead := l.Read(c); ahead != row.want || now != shown {
			t.Errorf("%s: Read = %v, %v, want %v, %v", row.name, now, ahead, shown, row.want)
		}
	}
}

func TestALimitReadsAllClocksWhenOneHasMoved(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		read := 0
		c := func() Reading {
			read++
			return System()
		}
		for _, row := range []struct {
			name       string
			mono, wall time.Duration // by how much the clock was set forward
			pass       time.Duration
			want       int
		}{
			{"no time has passed", 0, 0, 0, 0},
			{"a little time has passed", 0, 0, recently - 1, 0},
			{"more time has passed", 0, 0, recently, 1},
			{"the machine slept", 0, recently, 0, 1},
			{"the wall clock was set back", 0, -1, 0, 1},
			{"the monotonic clock has moved on, and the wall clock was set back", recently, 0, 0, 1},
		} {
			var l Limit
			l.Init(System(), time.Second)
			l.Ahead(c)
			w := l.last.Load()
			w.mono, w.wall = w.mono.Add(-row.mono), w.wall-int64(row.wall)
			time.Sleep(row.pass)
			for name, ahead := range map[string]func() bool{
				"Ahead": func() bool { return l.Ahead(c) },
				"Read":  func() bool { now, ahead := l.Read(c); return ahead && now == System() },
			} {
				read = 0
				l.last.Store(w)
				if !ahead() || read != row.want {
					t.Errorf("%s: %s: all clocks were read %d times, want %d", row.name, name, read, row.want)
				}
			}
		}
	})
}

func TestALimitEndsExactly(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		for _, length := range []time.Duration{0, 1, time.Millisecond, recently, 3*recently - 1} {
			var l Limit
			l.Init(System(), length)
			for began := time.Now(); ; time.Sleep(max(min(length-time.Since(began)-1, recently/3), 1)) {
				passed := time.Since(began)
				if got, want := l.Ahead(System), passed < length; got != want {
					t.Fatalf("%v: after %v: Ahead = %v", length, passed, got)
				}
				if passed >= length {
					break
				}
			}
		}
	})
}
