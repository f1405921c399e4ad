package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestWaitersEnterInTheOrderOfTheirCalls(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var g Gates
		if ok, _ := g.TryEnter("a"); !ok {
			t.Fatal("TryEnter of a free gate = false")
		}
		var order []int // each goroutine appends while it is inside
		for i := range 10 {
			go func() {
				if _, err := g.Enter(t.Context(), "a", nil); err != nil {
					t.Errorf("Enter: %v", err)
				}
				order = append(order, i)
				g.Leave("a")
			}()
			synctest.Wait() // goroutine i waits before goroutine i+1 starts
		}
		g.Leave("a")
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
		if len(g.names) != 0 {
			t.Errorf("%d gates are left, want none", len(g.names))
		}
	})
}

func TestAWatcherIsCalledForEachWaiterUntilTheGateIsLeft(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var g Gates
		calls := 0
		count := func() { calls++ } // under the mutex of the gates
		g.Watch("a", count)         // nobody is inside
		g.TryEnter("a")
		var inside sync.WaitGroup
		enter := func() {
			inside.Go(func() { g.Enter(t.Context(), "a", nil) })
			synctest.Wait()
		}
		enter()
		if calls != 0 {
			t.Errorf("%d calls, want none: the gate was not taken when it was to be watched", calls)
		}
		g.Watch("a", count)
		g.TryEnter("a")
		enter()
		enter()
		if calls != 2 {
			t.Errorf("%d calls for two goroutines that began to wait", calls)
		}
		g.Pass("a", func(any) any { return "baton" })
		enter()
		if calls != 3 {
			t.Errorf("%d calls, want 3: the gate was passed on, not left", calls)
		}
		g.Leave("a")
		enter()
		for range 4 {
			g.Leave("a")
		}
		inside.Wait()
		g.TryEnter("a")
		enter()
		if calls != 3 {
			t.Errorf("%d calls, want 3: the gate was left", calls)
		}
		g.Leave("a")
		g.Leave("a")
		inside.Wait()
	})
}

func TestNamesDoNotWaitForEachOther(t *testing.T) {
	var g Gates
	for _, name := range []string{"a", "b"} {
		if _, err := g.Enter(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWaiterWhoGivesUpIsSkipped(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var g Gates
		g.TryEnter("a")
		// Of five waiters the first, a middle one and the last give up.
		entered := make(chan int, 5)
		var wg sync.WaitGroup
		for i := range 5 {
			ctx := t.Context()
			if i%2 == 0 {
				c, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = c
			}
			wg.Go(func() {
				_, err := g.Enter(ctx, "a", nil)
				if i%2 == 0 {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("waiter %d: %v, want a deadline exceeded", i, err)
					}
					return
				}
				entered <- i
				g.Leave("a")
			})
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		g.Leave("a")
		wg.Wait()
		if first, second := <-entered, <-entered; first != 1 || second != 3 {
			t.Errorf("entered: %d, %d, want 1, 3", first, second)
		}
		if len(g.names) != 0 {
			t.Errorf("%d gates are left, want none", len(g.names))
		}
	})
}

func TestAGateThatComesFreeAsItsWaiterGivesUpIsNotLost(t *testing.T) {
	// Leave and cancel at the same moment, many times: in either order, the gate is free afterwards.
	for range 1000 {
		var g Gates
		g.TryEnter("a")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := g.Enter(ctx, "a", nil); err == nil {
				g.Leave("a")
			}
		}()
		go cancel()
		g.Leave("a")
		<-done
		if ok, _ := g.TryEnter("a"); !ok {
			t.Fatal("the gate is taken, and nobody is inside")
		}
	}
}

func TestWhatIsInsideIsForgottenWhenItsGoroutineLeavesTheGate(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var g Gates
		word := errors.New("word")
		g.TryEnter("a")
		g.SetInside("a", Inside{Why: word})
		if ok, inside := g.TryEnter("a"); ok || inside.Why != word {
			t.Errorf("TryEnter = %v, %v, want false and the reason", ok, inside)
		}
		go g.Enter(t.Context(), "a", nil)
		synctest.Wait()
		g.Leave("a")
		synctest.Wait()
		if got := g.Inside("a"); got != (Inside{}) {
			t.Errorf("the next one inside has said %v, want nothing yet", got)
		}
	})
}

func TestCloseEndsWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var g Gates
		g.TryEnter("a")
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := g.Enter(t.Context(), "a", nil)
				errs <- err
			}()
		}
		synctest.Wait()
		g.Close()
		for range 3 {
			if err := <-errs; err != ErrClosed {
				t.Errorf("Enter = %v, want ErrClosed", err)
			}
		}
		if _, err := g.Enter(t.Context(), "b", nil); err != ErrClosed {
			t.Errorf("Enter after Close = %v, want ErrClosed", err)
		}
		if ok, _ := g.TryEnter("b"); ok {
			t.Error("TryEnter after Close = true")
		}
		g.Leave("a") // a gate that is taken can still be left
	})
}

func TestAHandoverGoesToTheFirstWaiterThatMayHaveIt(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var g Gates
		if g.Pass("a", func(any) any { return "baton" }) {
			t.Error("Pass of a gate that is not taken reported true")
		}
		g.TryEnter("a")
		if g.Pass("a", func(any) any { return "baton" }) {
			t.Error("Pass to nobody reported true")
		}
		got := make(chan any)
		for _, tag := range []string{"red", "blue"} {
			go func() {
				baton, err := g.Enter(t.Context(), "a", tag)
				if err != nil {
					t.Errorf("Enter = %v", err)
				}
				got <- baton
			}()
			synctest.Wait()
		}
		onlyBlue := func(tag any) any {
			if tag != "blue" {
				return nil
			}
			return "for blue"
		}
		if g.Pass("a", onlyBlue) {
			t.Error("the baton has overtaken the first waiter")
		}
		g.Leave("a")
		if baton := <-got; baton != nil {
			t.Errorf("the first waiter got %v, want nothing", baton)
		}
		if !g.Pass("a", onlyBlue) {
			t.Error("the baton was not passed")
		}
		if baton := <-got; baton != "for blue" {
			t.Errorf("the second waiter got %v, want its baton", baton)
		}
	})
}

func TestAHandoverIsNotLostIfItsWaiterGivesUp(t *testing.T) {
	// Pass and cancel at the same moment, many times: the baton is where Pass
	// says that it is.
	for range 1000 {
		var g Gates
		g.TryEnter("a")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan any)
		go func() {
			baton, _ := g.Enter(ctx, "a", nil)
			got <- baton
		}()
		go cancel()
		passed := g.Pass("a", func(any) any { return "baton" })
		if baton := <-got; (baton != nil) != passed {
			t.Fatalf("Pass = %v, and the waiter got %v", passed, baton)
		}
	}
}
