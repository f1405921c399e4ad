package redlocktest_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// TestAStockKeeperSurvivesADeadMaster is the example program of the package documentation.
func TestAStockKeeperSurvivesADeadMaster(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		client := masters.Open(nil)
		masters.Master(0).Stop()

		stock := client.Locker("stock")
		stock.Lock()
		time.Sleep(time.Hour) // renewed all the while
		stock.Unlock()

		synctest.Wait()
		if held := strings.Join(masters.Get("stock"), ""); held != "" {
			t.Errorf("the key is left behind: %s", held)
		}
	})
}

func TestTwoClientsExcludeEachOther(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		opts := &redlock.Options{Prefix: "shop:"}
		one, other := masters.Open(opts), masters.Open(opts)
		if opts.Names != nil {
			t.Errorf("Open wrote Names = %q into the caller's options", opts.Names)
		}
		a, b := one.Locker("stock"), other.Locker("stock")
		if !a.TryLock() {
			t.Fatal("the first TryLock = false, want true")
		}
		// Wait until the last master has executed it, too. The other masters make the quorum, so at the
		// last one the second command could still come first.
		synctest.Wait()
		if b.TryLock() {
			t.Error("the second TryLock = true, want false")
		}
		synctest.Wait()
		for i, token := range masters.Get("shop:stock") {
			if token != a.Lease().Token() {
				t.Errorf("%s holds %q, want %q", masters.Names()[i], token, a.Lease().Token())
			}
		}
		a.Unlock()
	})
}

// A new user's test must not log warnings that do not concern it.
func TestAClientOfHealthyMastersLogsNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var log locktest.Log
		c := redlocktest.Start(t).Open(&redlock.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		l := c.Locker("stock")
		l.Lock()
		time.Sleep(time.Minute)
		l.Unlock()
		if log.String() != "" {
			t.Errorf("the log is not empty:\n%s", log.String())
		}
		for _, m := range c.Masters() {
			if m.GuardErr != nil {
				t.Errorf("%s: GuardErr = %v, want nil", m.Name, m.GuardErr)
			}
		}
	})
}
