package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// A candidate counts how often it leads, and in which term.
type candidate struct {
	cancel  context.CancelFunc
	done    chan error
	leading int
	term    uint64
}

func stand(t *testing.T, masters *redlocktest.Masters) *candidate {
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{cancel: cancel, done: make(chan error, 1)}
	client := masters.Open(nil)
	go func() {
		c.done <- Lead(ctx, client, "a", func(ctx context.Context, term uint64) error {
			c.leading++
			c.term = term
			<-ctx.Done()
			c.leading--
			return nil
		})
	}()
	return c
}

func TestOneLeadsAndAnotherTakesOver(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		first := stand(t, masters)
		time.Sleep(time.Second)
		second := stand(t, masters)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if first.leading != 1 || second.leading != 0 {
			t.Fatalf("leading: %d and %d, want 1 and 0", first.leading, second.leading)
		}
		first.cancel()
		if err := <-first.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead = %v, want the reason of its context", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if second.leading != 1 || second.term <= first.term {
			t.Errorf("the second leads %d times in term %d, want 1 in a term after %d", second.leading, second.term, first.term)
		}
		second.cancel()
		<-second.done
	})
}

func TestALeaderWithoutAMajorityStops(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		c := stand(t, masters)
		time.Sleep(time.Second)
		for i := range 3 {
			masters.Master(i).Freeze()
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if c.leading != 0 {
			t.Error("it leads although it has no majority")
		}
		for i := range 3 {
			masters.Master(i).Thaw()
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if c.leading != 1 {
			t.Error("it does not lead although the masters answer again")
		}
		c.cancel()
		<-c.done
	})
}
