package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
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

// short returns Options with a TTL of 1 s. Validity is then 988 ms, and a renewal is due after 333 ms.
func short() *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}}
}

const shortValidity = time.Second - 10*time.Millisecond - 2*time.Millisecond

// wantLost fails t unless the lease is lost, for a reason that contains why.
func wantLost(t *testing.T, s *redlock.Lease, why string) {
	t.Helper()
	err := s.Err()
	if !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Err = %v, want one line that matches ErrLost and says %q", err, why)
	}
	if s.Valid() {
		t.Error("a lost lease is valid")
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done of a lost lease is open")
	}
}

func TestALeaseIsLostExactlyAtTheEndOfValidity(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(m *redlocktest.Master)
		why   string
	}{
		{"frozen", (*redlocktest.Master).Freeze, "no answer yet"},
		{"dead", (*redlocktest.Master).Stop, "connection re"}, // refused or reset
		{"slow", func(m *redlocktest.Master) { m.Delay(5 * time.Second) }, "no answer yet"},
		{"failing", func(m *redlocktest.Master) { m.Fail("MISCONF the disk is full") }, "MISCONF"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, short()).Locker("a")
				l.Lock()
				s := l.Lease()
				time.Sleep(10 * time.Second)
				ctx := s.Context(t.Context())
				for i := range 3 {
					row.fault(ms.Master(i))
				}
				end := s.Until()
				<-s.Done()
				if late := time.Since(end); late < 0 || late > 0 {
					// One renewal may have been under way.
					if end = s.Until(); time.Since(end) != 0 {
						t.Errorf("Done closed %v after the end of validity, want 0", time.Since(end))
					}
				}
				<-ctx.Done()
				if late := time.Since(end); late != 0 {
					t.Errorf("the context ended %v after the end of validity, want 0", late)
				}
				wantLost(t, s, "no quorum of masters renewed it in time")
				wantLost(t, s, row.why)
				if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrLost) {
					t.Errorf("the context's cause is %v, want ErrLost", cause)
				}
				if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
					t.Errorf("UnlockContext = %v, want ErrLost", err)
				}
				for i := range 3 {
					ms.Master(i).Thaw()
					ms.Master(i).Start()
					ms.Master(i).Delay(0)
					ms.Master(i).Fail("")
				}
				time.Sleep(15 * time.Second)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestMaxHoldBoundsRenewal(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.MaxHold = 10 * time.Second
		c := connected(t, ms, opts)
		l := c.Locker("a")
		start := time.Now()
		l.Lock()
		s := l.Lease()
		<-s.Done()
		if held := time.Since(start); held < 10*time.Second || held > 10*time.Second+shortValidity {
			t.Errorf("the lease ended after %v, want MaxHold and what was left of validity", held)
		}
		wantLost(t, s, "MaxHold, 10s")
		synctest.Wait()
		wantFree(t, ms, "a")
		// For this Client the lock stays taken until the unlock.
		if c.Locker("a").TryLock() {
			t.Error("another goroutine got in before the unlock")
		}
		l.Unlock()
	})
}

func TestWithRenewalOffOnlyExtendExtends(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.RenewEvery = -1
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		s := l.Lease()
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			if err := s.Extend(t.Context()); err != nil {
				t.Fatalf("Extend = %v", err)
			}
			if got := time.Until(s.Until()); got != shortValidity {
				t.Errorf("Until is %v away after Extend, want all of the validity", got)
			}
		}
		// Validity counts from before the first byte was sent.
		for i := range 5 {
			ms.Master(i).Delay(100 * time.Millisecond)
		}
		if err := s.Extend(t.Context()); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		if got := time.Until(s.Until()); got != shortValidity-100*time.Millisecond {
			t.Errorf("Until is %v away after an Extend of 100ms, want that much less", got)
		}
		for i := range 5 {
			ms.Master(i).Delay(0)
		}
		// The end of ctx ends the wait, and nothing else.
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := s.Extend(ctx)
		var votes *redlock.QuorumError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &votes) || errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend = %v, want deadline exceeded with the votes", err)
		}
		if !s.Valid() {
			t.Error("the lease ended with the context")
		}
		if err := s.Extend(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend without a quorum = %v, want ErrLost at the end of validity", err)
		}
		for i := range 3 {
			ms.Master(i).Thaw()
		}
		l.Unlock()
		l.Lock()
		s = l.Lease()
		<-s.Done()
		wantLost(t, s, "renewal is off")
		if err := s.Extend(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend of a lost lease = %v, want ErrLost", err)
		}
		l.Unlock()
	})
}

func TestALeaseIsOverWhenEitherClockSaysSo(t *testing.T) {
	for _, row := range []struct {
		name         string
		wall, asleep time.Duration
		lost         bool
	}{
		{"the machine slept, and the wall clock tells", time.Hour, 0, true},
		{"the machine slept, and the boot clock tells", 0, time.Hour, true},
		{"both tell", time.Hour, time.Hour, true},
		{"the wall clock was set back", -time.Hour, 0, false},
		{"a TTL of sleep", 0, 10 * time.Second, true},
		{"a second of sleep", 0, time.Second, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var slept atomic.Bool
				opts := &redlock.Options{} // with a TTL of 10 s no renewal is due soon
				locktest.SetClocks(opts, func() (wall, asleep time.Duration) {
					if slept.Load() {
						return row.wall, row.asleep
					}
					return 0, 0
				})
				c := connected(t, ms, opts)
				asked, unasked := c.Locker("a"), c.Locker("b")
				asked.Lock()
				unasked.Lock()
				s, done := asked.Lease(), unasked.Lease().Done()
				ctx := s.Context(t.Context())
				slept.Store(true)
				// The first call returns the right answer, before any timer runs.
				if got := ctx.Err() != nil; got != row.lost {
					t.Errorf("the context's Err = %v, lost: %v, want %v", ctx.Err(), got, row.lost)
				}
				if row.lost {
					wantLost(t, s, "the machine slept, or its clock was set")
				} else if err := s.Err(); err != nil {
					t.Errorf("Err = %v, want nil", err)
				}
				// Done is closed within a second, even if nobody asks.
				time.Sleep(1001 * time.Millisecond)
				select {
				case <-done:
					if !row.lost {
						t.Errorf("Done closed: %v", unasked.Lease().Err())
					}
				default:
					if row.lost {
						t.Error("Done is open a second after the machine woke up")
					}
				}
			})
		})
	}
}

func TestAVoteThatComesAfterASleepDoesNotReviveTheLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var slept atomic.Int64
		opts := short()
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		s := l.Lease()
		for i := range 3 {
			ms.Master(i).Delay(100 * time.Millisecond)
		}
		time.Sleep(350 * time.Millisecond) // the renewal is under way
		// The old validity has ended during the sleep. The new one would not have.
		slept.Store(int64(800 * time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		wantLost(t, s, "the machine slept")
	})
}

func TestUnlockContextRightAfterASleepReportsTheLoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var slept atomic.Int64
		opts := &redlock.Options{}
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		slept.Store(int64(time.Hour))
		if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext = %v, want ErrLost", err)
		}
	})
}

func TestContextsOfALeaseEndWithIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		parent, cancel := context.WithCancel(t.Context())
		type key struct{}
		ctx, ended := s.Context(context.WithValue(t.Context(), key{}, 1)), s.Context(parent)
		child, cancelChild := context.WithTimeout(ctx, time.Hour)
		defer cancelChild()
		cancel()
		if ended.Err() != context.Canceled || context.Cause(ended) != context.Canceled {
			t.Errorf("Err, Cause = %v, %v after the parent ended, want canceled", ended.Err(), context.Cause(ended))
		}
		if ctx.Err() != nil || ctx.Value(key{}) != 1 {
			t.Errorf("Err, Value = %v, %v while the lease lasts, want nil, 1", ctx.Err(), ctx.Value(key{}))
		}
		l.Unlock()
		<-child.Done()
		if ctx.Err() != context.Canceled || context.Cause(child) != redlock.ErrReleased {
			t.Errorf("Err, Cause = %v, %v after the unlock, want canceled, ErrReleased", ctx.Err(), context.Cause(child))
		}
		if late := s.Context(t.Context()); late.Err() == nil || context.Cause(late) != redlock.ErrReleased {
			t.Errorf("a context of an ended lease has Err %v, cause %v", late.Err(), context.Cause(late))
		}
	})
}

func TestALossIsReportedToTraceAndLogger(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log locktest.Buffer
		var renewed, lost atomic.Int32
		opts := short()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		opts.Trace = &redlock.Trace{
			Renewed: func(_ context.Context, i redlock.RenewedInfo) {
				renewed.Add(1)
				if i.Name != "a" || time.Until(i.Until) > shortValidity || time.Until(i.Until) < shortValidity/2 {
					t.Errorf("RenewedInfo = %+v", i)
				}
			},
			Lost: func(_ context.Context, i redlock.LostInfo) {
				lost.Add(1)
				if i.Name != "a" || i.Held < 2*time.Second || !errors.Is(i.Err, redlock.ErrLost) {
					t.Errorf("LostInfo = %+v", i)
				}
			},
		}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		time.Sleep(2 * time.Second)
		ms.Master(0).Del("a")
		ms.Master(1).Del("a")
		time.Sleep(2 * time.Second)
		l.Unlock()
		if r, l := renewed.Load(), lost.Load(); r < 5 || r > 8 || l != 1 {
			t.Errorf("renewed %d times, lost %d times, want about 6 and once", r, l)
		}
		if got := log.String(); strings.Count(got, `leases were lost" names=a why=`) != 1 || !strings.Contains(got, "the key is gone") {
			t.Errorf("the log says %q, want the loss and why", got)
		}
	})
}

// stuckHandler is a handler for a Logger. It blocks until it is released.
type stuckHandler struct {
	slog.Handler
	release chan struct{}
}

func (h stuckHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h stuckHandler) Handle(context.Context, slog.Record) error {
	<-h.release
	return nil
}

func TestAStuckLoggerDelaysNoLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		release := make(chan struct{})
		opts := short()
		opts.Logger = slog.New(stuckHandler{release: release})
		c := connected(t, ms, opts)
		gone, kept, lost := c.Locker("gone"), c.Locker("kept"), c.Locker("lost")
		for _, l := range []*redlock.Locker{gone, kept, lost} {
			l.Lock()
		}
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Del("gone") // the Logger receives the loss, and blocks
		}
		time.Sleep(10 * time.Second)
		wantLost(t, gone.Lease(), "gone")
		if err := kept.Lease().Err(); err != nil {
			t.Errorf("another lease, whose masters are well: %v", err)
		}
		for i := range 3 {
			ms.Master(i).Stop()
		}
		s := lost.Lease()
		<-s.Done()
		if late := time.Since(s.Until()); late != 0 {
			t.Errorf("Done closed %v after the end of validity", late)
		}
		close(release)
	})
}

func TestAContextOfALeaseAgreesWithTheLease(t *testing.T) {
	c := redlocktest.StartN(t, 3).Open(&redlock.Options{DialTimeout: time.Minute}) // not in a bubble; Close waits for DialTimeout
	l := c.Locker("a")
	for range 200 {
		l.Lock()
		s := l.Lease()
		var contexts []context.Context
		for range 50 {
			contexts = append(contexts, s.Context(context.Background()))
		}
		unlocked := make(chan struct{})
		go func() {
			defer close(unlocked)
			l.Unlock()
		}()
		<-s.Done()
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				t.Fatal("a context lasts whose lease has ended")
			}
		}
		<-unlocked
	}
}

// The last tests are about polls that are executed when their claim has become a lease.

// A dam keeps back the commands that a client sends to some masters. What masters publish to it passes.
type dam struct {
	mu   sync.Mutex    // guards what follows
	shut chan struct{} // nil: it is open
	kept int           // how many writes it keeps back
}

// close makes the dam keep back what comes, until the returned function is called or the test ends.
func (d *dam) close(t *testing.T) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shut := make(chan struct{})
	d.shut, d.kept = shut, 0
	open = sync.OnceFunc(func() {
		d.mu.Lock()
		d.shut = nil
		d.mu.Unlock()
		close(shut)
	})
	t.Cleanup(open)
	return open
}

// keeps reports how many writes the dam keeps back.
func (d *dam) keeps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept
}

// A dammedConn is a connection behind a dam.
type dammedConn struct {
	net.Conn
	dam        *dam
	subscribes bool // the writer's
}

func (c *dammedConn) Write(p []byte) (int, error) {
	c.subscribes = c.subscribes || strings.Contains(string(p), "\r\nSUBSCRIBE\r\n")
	c.dam.mu.Lock()
	shut := c.dam.shut
	if shut != nil && !c.subscribes {
		c.dam.kept++
	}
	c.dam.mu.Unlock()
	if shut != nil && !c.subscribes {
		<-shut
	}
	return c.Conn.Write(p)
}

// wonBehindADam returns a Locker for "a" whose claim was granted the lock while the dam keeps back its poll to the first
// masters. If local is set, a second goroutine of the Client waits for it. open opens the dam.
func wonBehindADam(t *testing.T, ms *redlocktest.Masters, masters int, local bool) (l *redlock.Locker, next <-chan *redlock.Lease, open func()) {
	t.Helper()
	d := new(dam)
	c := openVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
		conn, err := ms.Master(i).Dial(ctx)
		if i < masters && err == nil {
			conn = &dammedConn{Conn: conn, dam: d}
		}
		return conn, err
	})
	holder, l := connected(t, ms, nil).Locker("a"), c.Locker("a")
	for range 50 {
		take(holder)
		in := locktest.Enter(l)
		queued(t, ms, "a", 1)
		open = d.close(t)
		for began := time.Now(); d.keeps() < masters; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Second {
				t.Fatal("no poll was sent within a second")
			}
		}
		holder.Unlock()
		synctest.Wait()
		select {
		case <-in:
			if local {
				next = queueUp(l, 1, 2*time.Second)
			}
			return l, next, open
		default: // the release has left the lock open
		}
		open()
		<-in
		l.Unlock()
		synctest.Wait()
	}
	t.Fatal("none of 50 releases has granted the lock to the waiter")
	return nil, nil, nil
}

// losesItToAnother has another client acquire the lock of l, whose keys are gone, and release it.
func losesItToAnother(t *testing.T, ms *redlocktest.Masters) {
	t.Helper()
	for i := range ms.Len() {
		ms.Master(i).Del("a")
	}
	other := connected(t, ms, nil).Locker("a")
	if !other.TryLock() {
		t.Fatal("TryLock = false although all keys are gone")
	}
	if err := other.UnlockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Late polls set the keys again after another client has had the lock. The lease must not be renewed with these keys.
func TestALeaseIsLostIfLatePollsFindItsKeysGone(t *testing.T) {
	for _, row := range []struct {
		name    string
		masters int // at which the polls come late
	}{{"at a quorum", 2}, {"at all masters", 3}} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l, _, open := wonBehindADam(t, ms, row.masters, false)
				s := l.Lease()
				losesItToAnother(t, ms)
				time.Sleep(50 * time.Millisecond)
				if err := s.Err(); err != nil {
					t.Fatalf("the lease has ended before the polls came: %v", err)
				}
				open()
				time.Sleep(time.Second)
				if err := s.Err(); !errors.Is(err, redlock.ErrLost) {
					t.Errorf("another client has had the lock, and the lease says %v, want ErrLost", err)
				}
			})
		})
	}
}

func TestALeaseThatWasHandedOverIsLostIfLatePollsFindItsKeysGone(t *testing.T) {
	oftenEnough(t, func(t *testing.T, ms *redlocktest.Masters) {
		l, next, open := wonBehindADam(t, ms, 2, true)
		token := l.Lease().Token()
		l.Unlock()
		s := <-next
		if s.Token() != token {
			t.Fatal("the lease was not handed over")
		}
		losesItToAnother(t, ms)
		open()
		time.Sleep(time.Second)
		if err := s.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("another client has had the lock, and the lease says %v, want ErrLost", err)
		}
		time.Sleep(2 * time.Second) // the holder unlocks
	})
}

// One connection stands still until the key there has expired, while the lease is renewed at the others.
func TestALatePollDoesNotEndALeaseThatIsRenewed(t *testing.T) {
	for _, stall := range []time.Duration{50 * time.Millisecond, 450 * time.Millisecond, 600 * time.Millisecond, 800 * time.Millisecond} {
		t.Run(stall.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l, _, open := wonBehindADam(t, ms, 1, false)
				s := l.Lease()
				time.Sleep(stall)
				open()
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					if err := s.Err(); err != nil {
						t.Fatalf("the lease was lost at one master only: %v", err)
					}
				}
				for i, token := range ms.Get("a") {
					if token != s.Token() {
						t.Errorf("master %d keeps %q, want the token of the lease", i, token)
					}
				}
				l.Unlock()
			})
		})
	}
}
