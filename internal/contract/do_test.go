package contract_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestDo(t *testing.T) {
	mine := errors.New("mine")
	for _, row := range []struct {
		name string
		f    func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error
		want []error // all of them must match
		not  []error // none of them may
	}{
		{name: "f's nil", f: func(context.Context, *redlock.Locker, *redlocktest.Masters) error { return nil }},
		{name: "f's error, unchanged", f: func(context.Context, *redlock.Locker, *redlocktest.Masters) error { return mine },
			want: []error{mine}, not: []error{redlock.ErrLost}},
		{name: "lost, and f returns nil", want: []error{redlock.ErrLost},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				<-ctx.Done()
				return nil
			}},
		{name: "lost, and f returns its error", want: []error{redlock.ErrLost, mine},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				<-ctx.Done()
				return mine
			}},
		{name: "keys gone, found by the release", want: []error{redlock.ErrLost, mine},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				synctest.Wait()
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				return mine
			}},
		{name: "f unlocks by itself", want: []error{mine}, not: []error{redlock.ErrLost},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				l.Unlock()
				if cause := context.Cause(ctx); cause != redlock.ErrReleased {
					return fmt.Errorf("cause %v, want ErrReleased", cause)
				}
				return mine
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, short()).Locker("a")
				err := l.Do(t.Context(), func(ctx context.Context) error {
					if l.Lease() == nil || !l.Lease().Valid() || ctx.Err() != nil {
						t.Error("f runs without a lease")
					}
					return row.f(ctx, l, ms)
				})
				if len(row.want) == 0 && err != nil || len(row.want) == 1 && row.want[0] == mine && err != mine {
					t.Errorf("Do = %v, want f's own error", err)
				}
				for _, want := range row.want {
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, which does not match %v", err, want)
					}
				}
				for _, not := range row.not {
					if errors.Is(err, not) {
						t.Errorf("Do = %v, which matches %v", err, not)
					}
				}
				wantFree(t, ms, "a")
				if !l.TryLock() {
					t.Error("the lock is not free after Do")
				} else {
					l.Unlock()
				}
			})
		})
	}
}

func TestDoThatGetsNoLockDoesNotCallF(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		hold(ms, "a", 0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := connected(t, ms, nil).Locker("a").Do(ctx, func(context.Context) error {
			t.Error("f was called")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Do = %v, want deadline exceeded and held", err)
		}
	})
}

func TestDoUnlocksOnPanicAndGoexit(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("Do panicked with %v, want f's own panic", p)
				}
			}()
			l.Do(t.Context(), func(context.Context) error { panic("mine") })
		}()
		wantFree(t, ms, "a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		wantFree(t, ms, "a")
		if !l.TryLock() {
			t.Error("the lock is not free")
		}
		l.Unlock()
	})
}

func TestDoWhoseContextEndsStillReleases(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != context.Canceled {
			t.Errorf("Do = %v, want f's canceled", err)
		}
		wantFree(t, ms, "a")
	})
}

func TestDoDoesNotUnlockASuccessor(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Do(t.Context(), func(context.Context) error {
			l.Unlock()
			l.Lock() // not by Do
			return nil
		})
		if !l.Lease().Valid() {
			t.Error("Do has ended a lease that was not its own")
		}
		l.Unlock()
	})
}

func TestDoReportsALossEvenIfFHasUnlocked(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		err := l.Do(t.Context(), func(ctx context.Context) error {
			synctest.Wait()
			for i := range 5 {
				ms.Master(i).Del("a")
			}
			<-ctx.Done()
			l.Unlock()
			return nil
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do = %v, want ErrLost", err)
		}
	})
}

func TestTheErrorOfDoSaysALossOnceIfTheFunctionReturnedTheCauseOfItsContext(t *testing.T) {
	for _, returned := range []func(ctx context.Context) error{
		context.Cause,
		func(ctx context.Context) error { return fmt.Errorf("job 7: %w", context.Cause(ctx)) },
	} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			var said error
			err := connected(t, ms, short()).Locker("a").Do(t.Context(), func(ctx context.Context) error {
				synctest.Wait()
				for i := range 5 {
					ms.Master(i).Set("a", "another holder", time.Minute)
				}
				<-ctx.Done()
				said = returned(ctx)
				return said
			})
			if !errors.Is(err, redlock.ErrLost) || !errors.Is(err, said) {
				t.Fatalf("Do = %v, want it to match ErrLost and %v", err, said)
			}
			if err.Error() != said.Error() {
				t.Errorf("Do = %v, want the text of %v and no more", err, said)
			}
		})
	}
}

func TestTheErrorOfDoNamesTheLossAndWhatTheFunctionReturned(t *testing.T) {
	for _, row := range []struct {
		returned error
		want     string // what follows the text of the loss
	}{
		{nil, ""},
		{errors.New("sold out\x1b"), "; the function returned: sold out?"},
	} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			err := connected(t, ms, short()).Locker("a").Do(t.Context(), func(ctx context.Context) error {
				synctest.Wait()
				for i := range 5 {
					ms.Master(i).Set("a", "another holder", time.Minute)
				}
				<-ctx.Done()
				return row.returned
			})
			if !errors.Is(err, redlock.ErrLost) || row.returned != nil && !errors.Is(err, row.returned) {
				t.Fatalf("Do = %v, want it to match ErrLost and %v", err, row.returned)
			}
			if !strings.Contains(err.Error(), `redlock: lease of "a" lost: `) || !strings.HasSuffix(err.Error(), "))"+row.want) {
				t.Errorf("Do = %v, want the loss and then %q", err, row.want)
			}
		})
	}
}
