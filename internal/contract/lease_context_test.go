package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

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
	c := redlocktest.StartN(t, 3).Open(nil)
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
