package contract_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// If a client with a larger MaxTTL joins, a quarantine that has ended stays ended. A quarantine that lasts
// becomes longer, since the client that joins may hold locks from before.
func TestALargerMaxTTLProlongsOnlyAQuarantineThatLasts(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration // the client with the larger MaxTTL joins
		want  time.Duration // the end of the other's quarantine
	}{
		{"while it lasts", 2 * time.Second, 62 * time.Second},
		{"when it is over", 6 * time.Second, 5 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				short := connected(t, ms, locktest.Lasting(time.Second))
				crash(ms, 0, 1, 2)
				start := time.Now()
				time.Sleep(row.after)
				ms.Open(locktest.Lasting(time.Minute))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for _, m := range short.Masters() {
					if m.MaxTTL != time.Minute {
						t.Errorf("%s: MaxTTL = %v, want a minute", m.Name, m.MaxTTL)
					}
				}
				time.Sleep(time.Until(start.Add(row.want - 100*time.Millisecond)))
				if early := short.Locker("a").TryLock(); early != (row.after > row.want) {
					t.Errorf("after %v the lock is acquired: %v", time.Since(start), early)
				}
				time.Sleep(time.Until(start.Add(row.want + 2*time.Second)))
				wantStates(t, short, 0)
			})
		})
	}
}

// A MaxTTL in one master's record applies to all masters, even if the client did not declare it there.
func TestALargerMaxTTLOfOneMasterHoldsForAll(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		short := connected(t, ms, locktest.Lasting(time.Second))
		record, _ := ms.Master(0).Get(incarnation.Key)
		ms.Master(0).Set(incarnation.Key, strings.Replace(record, " 1000 adopted", " 60000 adopted", 1), time.Hour)
		time.Sleep(3 * time.Second)
		wantStates(t, short, 0)
		if m := short.Masters()[0]; m.MaxTTL != time.Minute {
			t.Fatalf("MaxTTL = %v, want a minute", m.MaxTTL)
		}
		crash(ms, 1)
		start := time.Now()
		time.Sleep(1500 * time.Millisecond)
		wantStates(t, short, 1)
		if m := short.Masters()[1]; m.MaxTTL != time.Minute || m.Until.Sub(start) < 62*time.Second {
			t.Errorf("MaxTTL = %v, and the quarantine lasts %v, want a minute, and 2s more", m.MaxTTL, m.Until.Sub(start))
		}
	})
}

// A loggedFirst calls first with each line that says that a Client raises MaxTTL.
type loggedFirst struct {
	slog.Handler
	first func(line slog.Record)
}

func (h loggedFirst) Handle(ctx context.Context, line slog.Record) error {
	if strings.Contains(line.Message, "raises the MaxTTL") {
		h.first(line)
	}
	return nil
}

func TestAClientLogsThatItRaisesMaxTTLBeforeItDoes(t *testing.T) {
	for _, row := range []struct {
		name        string
		before, now time.Duration
		want        string // in the hint; "" for no line
	}{
		{"above another client's", time.Second, 2 * time.Second, "1s"},
		{"below another client's", 2 * time.Second, time.Second, ""},
		{"the default, on new masters", 0, 10 * time.Second, ""},
		{"above the default, on new masters", 0, time.Minute, "10s"},
		{"the default, above another client's", 5 * time.Second, 10 * time.Second, "5s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				if row.before > 0 {
					connected(t, ms, locktest.Lasting(row.before)).Close()
				}
				declared := func(i int) time.Duration {
					text, _ := ms.Master(i).Get(incarnation.Key)
					r, _ := incarnation.Parse(text)
					return r.MaxTTL
				}
				lines := 0
				opts := locktest.Lasting(row.now)
				opts.Logger = slog.New(loggedFirst{slog.NewTextHandler(io.Discard, nil), func(line slog.Record) {
					lines++
					line.Attrs(func(a slog.Attr) bool {
						if a.Key == "hint" && !strings.HasSuffix(a.Value.String(), " --adopt --max-ttl "+row.want) {
							t.Errorf("the hint is %q", a.Value)
						}
						return true
					})
					for i := range 3 {
						if got := declared(i); got != row.before {
							t.Errorf("master %d: MaxTTL is %v when it is logged that it will be raised, want %v", i, got, row.before)
						}
					}
				}})
				connected(t, ms, opts)
				if (lines == 1) != (row.want != "") || lines > 1 {
					t.Errorf("it is logged %d times", lines)
				}
				for i := range 3 {
					if got := declared(i); got != max(row.before, row.now) {
						t.Errorf("master %d: MaxTTL = %v afterwards, want %v", i, got, max(row.before, row.now))
					}
				}
			})
		})
	}
}

// A Logger that blocks does not keep a Client from connecting.
func TestABlockedLoggerDelaysRaisingMaxTTLOnlyForAMoment(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		connected(t, ms, locktest.Lasting(time.Second)).Close()
		blocked := make(chan struct{})
		opts := locktest.Lasting(time.Minute)
		opts.Logger = slog.New(loggedFirst{slog.NewTextHandler(io.Discard, nil), func(slog.Record) { <-blocked }})
		c := ms.Open(opts)
		time.Sleep(500 * time.Millisecond)
		for _, m := range c.Masters() {
			if m.State != redlock.MasterUp || m.MaxTTL != time.Minute {
				t.Errorf("%s is %v, with a MaxTTL of %v, want it to be up", m.Name, m.State, m.MaxTTL)
			}
		}
		close(blocked)
	})
}
