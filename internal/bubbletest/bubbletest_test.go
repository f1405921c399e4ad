package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// timersDueAtOnce makes timers in four goroutines. Each timer is due when it is made.
func timersDueAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				fired := make(chan struct{})
				time.AfterFunc(0, func() { close(fired) })
				<-fired
			}
		})
	}
	all.Wait()
}

// TestTimersDueAtOnceDoNotCrash needs the limit of one thread. Without it, nearly every run on two cores
// crashes the process under -race.
func TestTimersDueAtOnceDoNotCrash(t *testing.T) {
	for range 5 {
		Test(t, timersDueAtOnce)
	}
}

func TestGOMAXPROCSIsRestored(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	Test(t, func(t *testing.T) {
		if got := runtime.GOMAXPROCS(0); RaceEnabled && got != 1 {
			t.Errorf("GOMAXPROCS is %d in the bubble, want 1", got)
		}
	})
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is %d after the bubble, want %d", got, before)
	}
}
