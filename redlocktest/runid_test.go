package redlocktest

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
)

// runID returns the run_id that a master reports, to a client and to a script alike.
func runID(t *testing.T, ms *Masters, i int) string {
	t.Helper()
	conn, err := ms.Master(i).dial(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	info, err := redis.String(conn.Do("INFO", "Server"))
	if err != nil {
		t.Fatalf("INFO Server = %v, want the section", err)
	}
	byScript, err := redis.String(conn.Do("EVAL", "return redis.call('INFO', 'server')", 0))
	if err != nil || byScript != info {
		t.Fatalf("INFO in a script = %q, %v, want %q", byScript, err, info)
	}
	id, ok := strings.CutPrefix(info, "# Server\r\nrun_id:")
	if id = strings.TrimSuffix(id, "\r\n"); !ok || len(id) != 40 {
		t.Fatalf("INFO = %q, want a run_id of 40 digits", info)
	}
	return id
}

func TestTheRunIDChangesWithEachRestartOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 2)
		m := ms.Master(0)
		seen := map[string]bool{runID(t, ms, 1): true}
		for range 3 {
			id := runID(t, ms, 0)
			if seen[id] {
				t.Errorf("run_id %s was seen before, want a new one", id)
			}
			seen[id] = true
			m.Forget()
			m.Cut()
			m.Freeze()
			m.Thaw()
			m.Adopt()
			if again := runID(t, ms, 0); again != id {
				t.Errorf("run_id %s became %s without a restart", id, again)
			}
			m.Stop()
			m.Stop()
			m.Start()
			m.Start()
		}
	})
}

func TestFaultsApplyToINFO(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.Fail("LOADING")
		if reply, err := c.Do("INFO", "server"); err == nil {
			t.Errorf("INFO = %q, want the error of Fail", reply)
		}
		m.Fail("")
		if n := m.Count("INFO"); n != 0 {
			t.Errorf("Count = %d, want 0: it was not executed", n)
		}
		m.DropRequest("info")
		if reply, err := c.Do("INFO", "server"); err == nil {
			t.Errorf("INFO = %q, want the connection to be cut", reply)
		}
	})
}

func TestARestartedMasterIsInQuarantineUnlessItWasAdopted(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		bubbletest.Test(t, func(t *testing.T) {
			ms := StartN(t, 1)
			c := ms.Open(&redlock.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			c.Locker("stock").Lock()
			m := ms.Master(0)
			m.Stop()
			if adopted {
				m.Adopt()
			}
			m.Start()
			time.Sleep(3 * time.Second)
			want := map[bool]redlock.MasterState{false: redlock.MasterQuarantined, true: redlock.MasterUp}[adopted]
			if got := c.Masters()[0].State; got != want {
				t.Errorf("adopted: %v: the restarted master is %s, want %s", adopted, got, want)
			}
			time.Sleep(12 * time.Second)
			if got := c.Masters()[0].State; got != redlock.MasterUp {
				t.Errorf("adopted: %v: after 15 s the master is %s, want up", adopted, got)
			}
		})
	}
}
