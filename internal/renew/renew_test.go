package renew

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
)

// probe notes when it was called.
type probe struct {
	entry Entry
	mu    sync.Mutex
	due   []time.Time
	looks int
	again func(now time.Time) // called by Due
}

func (p *probe) Due(now clock.Reading) {
	p.mu.Lock()
	p.due = append(p.due, now.Time())
	p.mu.Unlock()
	if p.again != nil {
		p.again(now.Time())
	}
}

func (p *probe) Check(clock.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
}

func (p *probe) dues() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.due
}

func TestTasksAreCalledWhenTheyAreDue(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := Start(clock.System)
		defer s.Stop()
		random := rand.New(rand.NewPCG(1, 2))
		probes := make([]*probe, 500)
		want := make([]time.Time, len(probes))
		for i := range probes {
			probes[i] = &probe{}
			// If a time is set more than once, the last one counts, even if it is earlier.
			for range 1 + random.IntN(3) {
				want[i] = time.Now().Add(time.Duration(random.IntN(3_600_000)) * time.Millisecond)
				s.Schedule(&probes[i].entry, probes[i], want[i], 0)
			}
		}
		removed := 0
		for i := range probes {
			if i%7 == 0 {
				s.Remove(&probes[i].entry)
				s.Remove(&probes[i].entry) // twice does no harm
				removed++
			}
		}
		time.Sleep(2 * time.Hour)
		for i, p := range probes {
			switch due := p.dues(); {
			case i%7 == 0 && len(due) != 0:
				t.Errorf("probe %d was removed, and called %d times", i, len(due))
			case i%7 != 0 && (len(due) != 1 || !due[0].Equal(want[i])):
				t.Errorf("probe %d was called at %v, want once at %v", i, due, want[i])
			}
		}
	})
}

func TestTasksThatAreDueSoonAreCalledTogether(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := Start(clock.System)
		defer s.Stop()
		start := time.Now()
		set := func(at, slack time.Duration) *probe {
			p := &probe{}
			s.Schedule(&p.entry, p, start.Add(at), slack)
			return p
		}
		first, close, exact, far := set(100, 50), set(140, 50), set(141, 0), set(200, 50)
		time.Sleep(time.Second)
		for _, row := range []struct {
			name string
			p    *probe
			want time.Duration
		}{{"first", first, 100}, {"close", close, 100}, {"exact", exact, 141}, {"far", far, 200}} {
			if due := row.p.dues(); len(due) != 1 || due[0].Sub(start) != row.want {
				t.Errorf("%s was called at %v, want at %v", row.name, due, row.want)
			}
		}
	})
}

func TestATaskMayScheduleItselfAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := Start(clock.System)
		defer s.Stop()
		p := &probe{}
		p.again = func(now time.Time) { s.Schedule(&p.entry, p, now.Add(time.Minute), time.Second) }
		p.again(time.Now())
		time.Sleep(time.Hour + time.Second)
		if n := len(p.dues()); n != 60 {
			t.Errorf("called %d times in an hour, want 60", n)
		}
		if p.looks < 3590 || p.looks > 3610 {
			t.Errorf("looked at %d times in an hour, want once a second", p.looks)
		}
	})
}

func TestTheSchedulerSleepsWhileNothingIsScheduled(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var readings atomic.Int32
		s := Start(func() clock.Reading { readings.Add(1); return clock.System() })
		p := &probe{}
		s.Schedule(&p.entry, p, time.Now().Add(time.Second), 0)
		time.Sleep(10 * time.Second)
		before := readings.Load()
		time.Sleep(24 * time.Hour)
		if got := readings.Load(); got != before {
			t.Errorf("the scheduler woke %d times in a day without tasks", got-before)
		}
		s.Stop()
	})
}

func TestStopReturnsTheScheduledTasks(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := Start(clock.System)
		a, b, c := &probe{}, &probe{}, &probe{}
		for _, p := range []*probe{a, b, c} {
			s.Schedule(&p.entry, p, time.Now().Add(time.Hour), 0)
		}
		s.Remove(&b.entry)
		got := fmt.Sprintf("%p %p", a, c)
		var tasks string
		for i, task := range s.Stop() {
			if i > 0 {
				tasks += " "
			}
			tasks += fmt.Sprintf("%p", task)
		}
		if tasks != got {
			t.Errorf("Stop = %s, want %s", tasks, got)
		}
		if s.Schedule(&a.entry, a, time.Now(), 0) {
			t.Error("Set after Stop reported true")
		}
		if len(s.Stop()) != 0 {
			t.Error("a second Stop returned tasks")
		}
		time.Sleep(2 * time.Hour)
		if len(a.dues()) != 0 {
			t.Error("a task was called after Stop")
		}
	})
}
