package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// A candidate stands for the name "a".
type candidate struct {
	*election.Election
	client  *redlock.Client
	resign  context.CancelFunc
	done    chan error
	leading bool
	terms   []uint64
	fails   []error
	fail    error // what the function returns at once, if it is not nil
}

// stand opens a Client, and has it stand.
func stand(t *testing.T, ms *redlocktest.Masters, owner string, fail error) *candidate {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{client: locktest.Connected(t, ms, &redlock.Options{Owner: owner}), resign: cancel, done: make(chan error, 1), fail: fail}
	var err error
	if c.Election, err = election.New(c.client, "a", nil); err != nil {
		t.Fatal(err)
	}
	c.Failed = func(err error) { c.fails = append(c.fails, err) }
	go func() {
		c.done <- c.Run(ctx, func(ctx context.Context, term uint64) error {
			if c.terms = append(c.terms, term); c.fail != nil {
				return c.fail
			}
			c.leading = true
			<-ctx.Done()
			c.leading = false
			return context.Cause(ctx)
		})
	}()
	synctest.Wait()
	return c
}

// want fails the test unless exactly the one of two leads, and both say so.
func want(t *testing.T, leader, other *candidate, owner string) {
	t.Helper()
	synctest.Wait()
	if !leader.leading || !leader.Leads() || other.leading || other.Leads() {
		t.Errorf("leading: %v and %v; they say %v and %v", leader.leading, other.leading, leader.Leads(), other.Leads())
	}
	for _, c := range []*candidate{leader, other} {
		if got, err := c.Leader(t.Context()); got != owner || err != nil {
			t.Errorf("Leader = %q, %v, want %q", got, err, owner)
		}
	}
}

func TestOneLeadsUntilItResigns(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		one, two := stand(t, ms, "web-1", nil), stand(t, ms, "web-2", nil)
		time.Sleep(20 * time.Second)
		want(t, one, two, "web-1")
		one.resign()
		if err := <-one.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want the cause of its context", err)
		}
		time.Sleep(200 * time.Millisecond) // at once, unless the release has left the lock open
		want(t, two, one, "web-2")
		if two.terms[0] <= one.terms[0] {
			t.Errorf("the terms are %d and %d, want them to rise", one.terms[0], two.terms[0])
		}
		two.resign()
		<-two.done
		if got, err := one.Leader(t.Context()); got != "" || err != nil {
			t.Errorf("Leader = %q, %v, want nobody", got, err)
		}
	})
}

// LockOptions.MaxHold is an hour by default.
func TestALeaderLeadsForMoreThanAnHour(t *testing.T) {
	locktest.Bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := stand(t, ms, "web-1", nil)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if !c.Leads() || len(c.terms) != 1 {
			t.Errorf("leads: %v, terms %v, errors %v", c.Leads(), c.terms, c.fails)
		}
		c.resign()
		<-c.done
	})
}

func TestALeaderThatLosesTheLockStandsAgain(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := stand(t, ms, "web-1", nil)
		for range 2 {
			for i := range ms.Len() {
				ms.Master(i).Freeze()
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if c.leading || c.Leads() {
				t.Error("it leads without a majority")
			}
			for i := range ms.Len() {
				ms.Master(i).Thaw()
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if !c.leading || !c.Leads() {
				t.Error("it does not lead although the masters answer again")
			}
		}
		if len(c.fails) != 2 || !errors.Is(c.fails[0], redlock.ErrLost) || len(c.terms) != 3 || c.terms[2] <= c.terms[0] {
			t.Errorf("terms %v, errors %v", c.terms, c.fails)
		}
		c.resign()
		<-c.done
	})
}

func TestALeaderThatFailsLeavesTheLockToOthers(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		boom := errors.New("boom")
		one := stand(t, ms, "web-1", boom)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// The pauses are up to 1, 2, 4, 8, 16 and then 30 s.
		if n := len(one.terms); n < 20 || n > 45 || len(one.fails) < n-1 || !errors.Is(one.fails[0], boom) {
			t.Errorf("it has led %d times in ten minutes, with %d errors", n, len(one.fails))
		}
		two := stand(t, ms, "web-2", nil)
		time.Sleep(time.Minute)
		want(t, two, one, "web-2")
		one.resign()
		two.resign()
		for _, c := range []*candidate{one, two} {
			if err := <-c.done; !errors.Is(err, context.Canceled) {
				t.Errorf("Run = %v, want the cause of its context", err)
			}
		}
	})
}

// An error after a long term is not one in a row.
func TestThePauseAfterALongTermIsShort(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		e, err := election.New(locktest.Connected(t, ms, nil), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Failed = func(error) {}
		var last time.Time
		terms := 0
		err = e.Run(t.Context(), func(context.Context, uint64) error {
			if terms++; terms > 1 && time.Since(last) > time.Second+100*time.Millisecond {
				t.Errorf("the pause before term %d took %v", terms, time.Since(last))
			}
			if terms == 10 {
				return nil
			}
			time.Sleep(time.Minute)
			last = time.Now()
			return errors.New("boom")
		})
		if err != nil || terms != 10 {
			t.Errorf("Run = %v after %d terms, want nil after 10", err, terms)
		}
		locktest.WantFree(t, ms, "a")
	})
}

func TestRunOfAClosedClientAndOfAWrongName(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		one, two := stand(t, ms, "web-1", nil), stand(t, ms, "web-2", nil)
		two.client.Close()
		if err := <-two.done; err != redlock.ErrClosed {
			t.Errorf("Run = %v, want ErrClosed", err)
		}
		one.client.Close()
		if err := <-one.done; err != redlock.ErrClosed {
			t.Errorf("Run of a leader = %v, want ErrClosed", err)
		}
		if _, err := election.New(one.client, "", nil); err == nil {
			t.Error("New without a name succeeded")
		}
	})
}

// A process that has resigned does not keep the lock, or it would be taken for the leader.
func TestAProcessThatHasResignedIsNotTheLeaderAnyMore(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, &redlock.Options{Owner: "web-1"})
		e, err := election.New(c, "a", &redlock.LockOptions{Fencing: true, MaxHold: -1, Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := e.Run(t.Context(), func(context.Context, uint64) error {
				if owner, err := e.Leader(t.Context()); owner != "web-1" || err != nil {
					t.Errorf("Leader = %q, %v", owner, err)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if owner, err := e.Leader(t.Context()); owner != "" || err != nil {
				t.Errorf("Leader of nobody = %q, %v", owner, err)
			}
		}
	})
}

func TestALeaderThatPanicsResigns(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		e, err := election.New(locktest.Connected(t, ms, nil), "a", &redlock.LockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if recover() != "boom" {
				t.Error("no panic")
			}
			locktest.WantFree(t, ms, "a")
		}()
		e.Run(t.Context(), func(_ context.Context, term uint64) error {
			if term != 0 {
				t.Errorf("term %d without fencing", term)
			}
			panic("boom")
		})
	})
}

// lead may use locks and Clients of its own. Their errors say nothing about the lock of the election.
func TestErrorsOfOtherLocksAreThoseOfLead(t *testing.T) {
	for name, fail := range map[string]error{"another lock is lost": redlock.ErrLost, "another Client is closed": redlock.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				e, err := election.New(locktest.Connected(t, ms, nil), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				fail := fmt.Errorf("work: %w", fail)
				e.Failed = func(err error) {
					if err != fail {
						t.Errorf("Failed was called with %v, want the error of lead as it is", err)
					}
				}
				terms, began := 0, time.Now()
				err = e.Run(t.Context(), func(context.Context, uint64) error {
					if terms++; terms == 6 {
						return nil
					}
					return fail
				})
				if err != nil || terms != 6 {
					t.Errorf("Run = %v after %d terms, want nil after 6", err, terms)
				}
				// The pauses are at least 0.5, 1, 2, 4 and 8 s.
				if took := time.Since(began); took < 15*time.Second {
					t.Errorf("six terms in %v, want a pause after each that is doubled", took)
				}
			})
		})
	}
}
