package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// loseLease acquires a lock and deletes its key at a majority of the masters.
func loseLease(c *redlock.Client, ms *redlocktest.Masters, name string) *redlock.Locker {
	l := c.Locker(name)
	l.Lock()
	for i := range ms.Len() {
		ms.Master(i).Del(name)
	}
	return l
}

func TestCloseFromTraceLostReturns(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var c *redlock.Client
		closed := make(chan error, 1)
		c = connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Lost: func(context.Context, redlock.LostInfo) { closed <- c.Close() },
		}})
		loseLease(c, ms, "a")
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Error("Close hangs")
		}
	})
}

func TestATraceThatBlocksHangsNoClose(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		block := make(chan struct{})
		defer close(block)
		wait := func() { <-block }
		c, err := redlock.New(ms.Pools(), &redlock.Options{Trace: &redlock.Trace{
			Renewed:       func(context.Context, redlock.RenewedInfo) { wait() },
			Lost:          func(context.Context, redlock.LostInfo) { wait() },
			MasterChanged: func(context.Context, redlock.MasterStatus) { wait() },
		}})
		if err != nil {
			t.Fatal(err)
		}
		loseLease(c, ms, "a")
		time.Sleep(time.Minute)
		began := time.Now()
		if err := c.Close(); err == nil {
			t.Error("Close = nil, want an error that names the Trace")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// A function of Trace that takes longer than a TTL must not delay the renewal of leases.
func TestASlowTraceDelaysNoRenewal(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var slow atomic.Bool
		slow.Store(true)
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Renewed: func(context.Context, redlock.RenewedInfo) {
				if slow.Load() {
					time.Sleep(time.Minute)
				}
			},
		}})
		a, b := c.Locker("a"), c.Locker("b")
		a.Lock()
		b.Lock()
		time.Sleep(5 * time.Minute)
		if err := a.Lease().Err(); err != nil {
			t.Error(err)
		}
		if err := b.Lease().Err(); err != nil {
			t.Error(err)
		}
		slow.Store(false)
		a.Unlock()
		b.Unlock()
		time.Sleep(2 * time.Minute) // for the call under way
		synctest.Wait()
	})
}

func TestEachCallThatLocksIsTracedFromStartToDone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		starts, dones := 0, []redlock.LockDoneInfo{}
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			LockStart: func(_ context.Context, i redlock.LockStartInfo) {
				mu.Lock()
				defer mu.Unlock()
				starts++
			},
			LockDone: func(_ context.Context, i redlock.LockDoneInfo) {
				mu.Lock()
				defer mu.Unlock()
				dones = append(dones, i)
			},
		}})
		want := func(waited time.Duration, attempts int, err error) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if starts != len(dones) {
				t.Errorf("%d starts and %d dones", starts, len(dones))
			}
			got := dones[len(dones)-1]
			if got.Name != "a" || got.Waited != waited || attempts >= 0 && got.Attempts != attempts || !errors.Is(got.Err, err) {
				t.Errorf("LockDone(%+v), want %v, %d attempts, error %v", got, waited, attempts, err)
			}
		}
		l := c.Locker("a")
		l.Lock()
		want(0, 1, nil)
		go func() {
			time.Sleep(10 * time.Millisecond)
			l.Unlock()
		}()
		l.Lock() // by handover
		want(10*time.Millisecond, 0, nil)
		if c.Locker("a").TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		want(0, 0, redlock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := connected(t, ms, nil).Locker("a").LockContext(ctx); err == nil {
			t.Fatal("two hold the lock")
		}
		if err := c.Locker("a").LockContext(ctx); err == nil {
			t.Fatal("two hold the lock")
		}
		want(0, 0, context.DeadlineExceeded) // ctx had ended before
		l.Unlock()
	})
}

func TestLockDoneReportsAPanicAsAnError(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var done []error
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Acquired: func(context.Context, redlock.AcquiredInfo) { panic("the user's") },
			LockDone: func(_ context.Context, i redlock.LockDoneInfo) { done = append(done, i.Err) },
		}})
		func() {
			defer func() { recover() }()
			c.Locker("a").Lock()
		}()
		if len(done) != 1 || done[0] == nil {
			t.Errorf("LockDone was called with %v, want one error", done)
		}
	})
}

func TestATraceThatPanicsLeavesTheLockFree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		panics := true
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{LockDone: func(context.Context, redlock.LockDoneInfo) {
			if panics {
				panic("the user's")
			}
		}}})
		for name, lock := range map[string]func(l *redlock.Locker){
			"Lock":    (*redlock.Locker).Lock,
			"TryLock": func(l *redlock.Locker) { l.TryLock() },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				lock(c.Locker("a"))
			}()
		}
		panics = false
		if !connected(t, ms, nil).Locker("a").TryLock() {
			t.Error("the lock is still held")
		}
	})
}

func TestTheOutcomeOfACallIsOneWord(t *testing.T) {
	for want, err := range map[string]error{
		"acquired":    nil,
		"closed":      redlock.ErrClosed,
		"timeout":     errors.Join(context.DeadlineExceeded, redlock.ErrHeld),
		"canceled":    errors.Join(context.Canceled, redlock.ErrHeld),
		"held":        redlock.ErrHeld,
		"quarantined": redlock.ErrQuarantined,

		"timeout_unavailable": errors.Join(context.DeadlineExceeded, &redlock.QuorumError{Errs: []error{errors.New("connection refused")}}),
		"unavailable":         errors.New("connection refused"),
	} {
		if got := (redlock.LockDoneInfo{Err: err}).Outcome(); got != want {
			t.Errorf("the outcome of %v is %q, want %q", err, got, want)
		}
	}
}

func TestTraceReportsWhatHappens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		var got []string
		type key struct{}
		note := func(ctx context.Context, what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			caller, _ := ctx.Value(key{}).(string)
			if err != nil {
				what += " (" + locktest.Outcome(err) + ")"
			}
			got = append(got, caller+what)
		}
		c := ms.Open(&redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(ctx context.Context, i redlock.AttemptInfo) { note(ctx, "attempt "+i.Name, i.Err) },
			Acquired: func(ctx context.Context, i redlock.AcquiredInfo) {
				if i.Attempts != 3 || i.Waited <= 0 || !i.Until.After(time.Now()) {
					t.Errorf("AcquiredInfo = %+v, want 3 attempts, a wait, and an end to come", i)
				}
				note(ctx, "acquired "+i.Name, nil)
			},
			Released: func(ctx context.Context, i redlock.ReleasedInfo) {
				if i.Held != time.Second {
					t.Errorf("held for %v, want 1s", i.Held)
				}
				note(ctx, "released "+i.Name, i.Err)
			},
			MasterChanged: func(ctx context.Context, i redlock.MasterStatus) { note(ctx, i.Name+" "+i.State.String(), i.Err) },
		}})
		synctest.Wait()
		slices.Sort(got) // the masters connect in any order
		hold(ms, "a", 0, 1, 2)
		time.AfterFunc(time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		})
		ctx := context.WithValue(t.Context(), key{}, "caller: ")
		l := c.Locker("a")
		if err := l.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := l.UnlockContext(ctx); err != nil {
			t.Fatal(err)
		}
		ms.Master(1).Stop()
		time.Sleep(2 * time.Second)
		want := []string{
			"master 1 up", "master 2 up", "master 3 up",
			"caller: attempt a (held)", "caller: attempt a (held)", "caller: attempt a", "caller: acquired a", "caller: released a",
			"master 2 down (error)",
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// leases counts the leases that a Trace reports, as a metric would.
type leases struct {
	mu                       sync.Mutex // guards what follows
	acquired, released, lost map[string]int
}

func (l *leases) trace() *redlock.Trace {
	l.acquired, l.released, l.lost = map[string]int{}, map[string]int{}, map[string]int{}
	count := func(m map[string]int, name string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		m[name]++
	}
	return &redlock.Trace{
		Acquired: func(_ context.Context, i redlock.AcquiredInfo) { count(l.acquired, i.Name) },
		Released: func(_ context.Context, i redlock.ReleasedInfo) { count(l.released, i.Name) },
		Lost:     func(_ context.Context, i redlock.LostInfo) { count(l.lost, i.Name) },
	}
}

// want compares the counts of a name.
func (l *leases) want(t *testing.T, name string, acquired, released, lost int) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acquired[name] != acquired || l.released[name] != released || l.lost[name] != lost {
		t.Errorf("%s: %d acquired, %d released, %d lost; want %d, %d, %d",
			name, l.acquired[name], l.released[name], l.lost[name], acquired, released, lost)
	}
}

func lockAndUnlock(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}

// The number of leases held is that of Acquired less those of Released and Lost. The metrics rely on it.
func TestEachAcquiredLeaseIsReleasedOrLostOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var got leases
		c := connected(t, ms, &redlock.Options{Trace: got.trace()})
		del := func(name string) {
			for i := range ms.Len() {
				ms.Master(i).Del(name)
			}
		}

		l := c.Locker("unlocked")
		for range 3 {
			lockAndUnlock(l)
		}
		if err := l.LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		got.want(t, "unlocked", 4, 4, 0)

		l = c.Locker("lost")
		l.Lock()
		del("lost")
		time.Sleep(5 * time.Second)
		got.want(t, "lost", 1, 0, 1)
		l.Unlock()
		got.want(t, "lost", 1, 0, 1)

		l = c.Locker("gone at unlock")
		l.Lock()
		del("gone at unlock")
		l.Unlock()
		got.want(t, "gone at unlock", 1, 1, 0)

		var all sync.WaitGroup
		for range 4 { // one acquires, three are handed the lease
			all.Go(func() {
				c.Locker("handed over").Do(t.Context(), func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				})
			})
		}
		all.Wait()
		got.want(t, "handed over", 1, 1, 0)

		rw := c.RWLocker("read")
		for range 1000 {
			lockAndUnlock(rw.RLocker())
		}
		got.want(t, "read", 1, 0, 0) // the lease is kept
		lockAndUnlock(rw)
		got.want(t, "read", 2, 2, 0)
	})
}

// While a set acquires its names one by one, it holds leases that no caller knows of. Neither their acquisition nor
// their loss is an event.
func TestALeaseOfOneNameOfASetIsNoEvent(t *testing.T) {
	t.Run("a plain SET has acquired it", func(t *testing.T) { leaseOfOneName(t, false) })
	t.Run("a release has granted it", func(t *testing.T) { leaseOfOneName(t, true) })
}

func leaseOfOneName(t *testing.T, granted bool) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var got leases
		other := connected(t, ms, nil).Locker("b")
		other.Lock()
		before := connected(t, ms, nil).Locker("a")
		if granted {
			before.Lock()
		}
		set := connected(t, ms, &redlock.Options{Trace: got.trace()}).Locker("a", "b")
		locked := make(chan struct{})
		go func() {
			set.Lock()
			close(locked)
		}()
		if granted {
			queued(t, ms, "a", 1)
			before.Unlock()
		}
		for range 50 { // until the set has a, and waits for b
			time.Sleep(100 * time.Millisecond)
			if len(holders(ms, "a")) == ms.Len() {
				break
			}
		}
		token := ms.Get("a")
		if len(holders(ms, "a")) != ms.Len() {
			t.Fatal("the set did not acquire a alone")
		}
		for i := range ms.Len() {
			ms.Master(i).Del("a")
		}
		time.Sleep(5 * time.Second)
		if now := ms.Get("a"); now[0] == token[0] {
			t.Fatal("the lease of a was not lost")
		}
		got.want(t, "a", 0, 0, 0)
		other.Unlock()
		<-locked
		set.Unlock()
		got.want(t, "a", 0, 0, 0)
		got.want(t, "b", 0, 0, 0)
		got.want(t, "a, b", 1, 1, 0)
	})
}

func TestALockThatAPanicOfATraceGivesBackIsReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var got leases
		c := connected(t, ms, &redlock.Options{Trace: redlock.JoinTraces(got.trace(), &redlock.Trace{
			LockDone: func(context.Context, redlock.LockDoneInfo) { panic("the user's") },
		})})
		func() {
			defer func() { recover() }()
			c.Locker("a").Lock()
		}()
		got.want(t, "a", 1, 1, 0)
		wantFree(t, ms, "a")
	})
}

// recorder returns a Trace that appends name to calls in each of its functions.
func recorder(name string, calls *[]string) *redlock.Trace {
	t := &redlock.Trace{}
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			*calls = append(*calls, name)
			return nil
		}))
	}
	return t
}

// callField calls the function in the i-th field of a Trace with an empty info.
func callField(t *redlock.Trace, i int) {
	f := reflect.ValueOf(t).Elem().Field(i)
	f.Call([]reflect.Value{reflect.ValueOf(context.Background()), reflect.Zero(f.Type().In(1))})
}

// TestJoinTracesCallsEachFunctionOfEachTrace goes through the fields of Trace, so that a field that is added later is
// not forgotten.
func TestJoinTracesCallsEachFunctionOfEachTrace(t *testing.T) {
	var calls []string
	joined := redlock.JoinTraces(recorder("a", &calls), nil, recorder("b", &calls), &redlock.Trace{}, recorder("c", &calls))
	fields := reflect.TypeFor[redlock.Trace]()
	for i := range fields.NumField() {
		calls = nil
		callField(joined, i)
		if want := []string{"a", "b", "c"}; !slices.Equal(calls, want) {
			t.Errorf("%s calls %v, want %v", fields.Field(i).Name, calls, want)
		}
	}
}

func TestJoinTracesLeavesFunctionsNilThatNoTraceHas(t *testing.T) {
	joined := redlock.JoinTraces(nil, &redlock.Trace{Lost: func(context.Context, redlock.LostInfo) {}}, &redlock.Trace{})
	v := reflect.ValueOf(joined).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsNil() != (name != "Lost") {
			t.Errorf("%s is nil: %v", name, v.Field(i).IsNil())
		}
	}
	if got := redlock.JoinTraces(); got == nil {
		t.Error("JoinTraces() = nil, want a Trace without functions")
	}
}

func TestJoinTracesCallsTheOthersIfAFunctionPanics(t *testing.T) {
	var calls []string
	first := &redlock.Trace{LockStart: func(context.Context, redlock.LockStartInfo) { panic("the user's") }}
	joined := redlock.JoinTraces(first, recorder("b", &calls))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		joined.LockStart(t.Context(), redlock.LockStartInfo{})
	}()
	if len(calls) != 1 {
		t.Errorf("the second Trace was called %d times, want once", len(calls))
	}
}

func TestLogTraceLogsEachEvent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := connected(t, ms, &redlock.Options{Trace: redlock.LogTrace(log), LockOptions: redlock.LockOptions{TTL: time.Second, Fencing: true}})
		l := c.Locker("a")
		l.Lock()
		time.Sleep(time.Second)
		in := make(chan struct{})
		go func() {
			l.Lock()
			close(in)
		}()
		synctest.Wait()
		l.Unlock()
		<-in
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		time.Sleep(time.Second)
		l.Unlock()
		ms.Master(0).Stop()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, want := range []string{
			`level=DEBUG msg="redlock: lock: start" name=a`,
			`msg="redlock: attempt" name=a elapsed=`,
			`msg="redlock: acquired" name=a waited=0s until=`,
			`msg="redlock: lock: done" name=a waited=0s attempts=1`,
			`msg="redlock: renewed" name=a elapsed=`,
			`msg="redlock: released" name=a held=1s`,
			`level=WARN msg="redlock: lost" name=a held=`,
			`msg="redlock: master changed" master="master 1" state=down err=`,
		} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, b.String())
			}
		}
		if !strings.Contains(b.String(), " fence=") || strings.Contains(b.String(), "err=\"\"") {
			t.Errorf("the log lacks a fence, or has an empty error:\n%s", b.String())
		}
	})
}

// Each holder of a kept lock has held it for a time of its own. A lock that is lost or released while it is kept was held by
// nobody.
func TestTheTraceTellsKeptLocksApart(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex // guards events
		var events []string
		note := func(event string, held time.Duration, kept bool) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprint(event, " ", held.Round(100*time.Millisecond), " ", kept))
		}
		opts := keeping(time.Hour)
		opts.Trace = &redlock.Trace{
			Acquired: func(context.Context, redlock.AcquiredInfo) { note("acquired", 0, false) },
			Released: func(_ context.Context, i redlock.ReleasedInfo) { note("released", i.Held, i.Kept) },
			Lost:     func(_ context.Context, i redlock.LostInfo) { note("lost", i.Held, i.Kept) },
		}
		l := connected(t, ms, opts).Locker("stock")
		other := connected(t, ms, nil).Locker("stock")
		hold := func() {
			l.Lock()
			time.Sleep(100 * time.Millisecond)
			l.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
		hold()
		hold()
		locktest.Pass(other) // recalls it
		time.Sleep(unkeptMost)
		hold()
		l.Lock()
		in := locktest.Enter(other)
		time.Sleep(100 * time.Millisecond)
		l.Unlock()
		<-in
		other.Unlock()
		time.Sleep(unkeptMost)
		hold()
		for i := range 3 {
			ms.Master(i).Del("stock")
		}
		hold()
		time.Sleep(5 * time.Second) // a renewal finds out
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			"acquired 0s false", "released 200ms true",
			"acquired 0s false", "released 100ms false",
			"acquired 0s false", "lost 3.1s true",
		}
		if !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// The second reader enters a lease that the Client has. Its LockDone panics.
func TestAReaderThatAPanicOfATraceGivesBackIsGone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		panics := false
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{LockDone: func(context.Context, redlock.LockDoneInfo) {
			if panics {
				panic("the user's")
			}
		}}})
		l := c.RWLocker("a")
		l.RLock()
		panics = true
		for name, lock := range map[string]func(){"RLock": l.RLock, "TryRLock": func() { l.TryRLock() }} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				lock()
			}()
		}
		panics = false
		l.RUnlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.LockContext(ctx); err != nil {
			t.Errorf("a writer = %v, want the lock, since no reader is left", err)
		}
	})
}

func TestAPanicOfATraceDuringAHandoverOfAPermitLeavesNothingHeld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{HandedOver: func(context.Context, redlock.HandedOverInfo) { panic("the user's") }}})
		s := c.Semaphore("a", 1)
		// The masters do not have the script yet. One that has to be sent a registration again may execute another one first.
		acquire(t, s, 1).Release()
		synctest.Wait()
		first, next := acquire(t, s, 1), make(chan *redlock.Permit)
		go func() {
			p, err := s.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			next <- p
		}()
		synctest.Wait()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic: the permit was not handed over")
				}
			}()
			first.Release()
		}()
		(<-next).Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Shutdown(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("Shutdown = %v, %v, want that nothing is held", err, ctx.Err())
		}
	})
}
