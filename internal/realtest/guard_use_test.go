package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// These tests check what the restart guard costs and reports, on real servers.

// brief returns options with a quarantine of 4 s.
func brief() *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{TTL: 2 * time.Second}, MaxTTL: 2 * time.Second, NodeTimeout: 900 * time.Millisecond}
}

func TestEventsThatLoseNoLockCauseNoQuarantine(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	var log changes
	var renewals atomic.Int64
	opts := patient()
	opts.LockOptions.RenewEvery = 50 * time.Millisecond
	opts.Trace = log.trace()
	opts.Trace.Renewed = func(context.Context, redlock.RenewedInfo) { renewals.Add(1) }
	c := openReal(t, servers, opts)
	eventually(t, "all are connected", func() bool { return locktest.States(c, redlock.MasterUp) == 3 })
	held, free := c.Locker("held"), c.Locker("free")
	held.Lock()
	var records []string
	for _, s := range servers {
		records = append(records, record(t, s))
	}
	for _, row := range []struct {
		name     string
		commands [][]any // at each server
		cuts     bool    // ends the connections
		odd      bool    // the next probe is odd, which ends the connection and costs an attempt
	}{
		{name: "scripts are flushed", commands: [][]any{{"SCRIPT", "FLUSH"}}},
		{name: "the record is to live for ever", commands: [][]any{{"PERSIST", incarnation.Key}}, odd: true},
		{name: "another database is flushed", commands: [][]any{{"EVAL", "redis.call('SELECT', 5); redis.call('FLUSHDB')", 0}}},
		{name: "other databases are swapped", commands: [][]any{{"SWAPDB", 3, 4}}},
		{name: "functions are flushed", commands: [][]any{{"FUNCTION", "FLUSH"}}},
		{name: "the servers stand still", commands: [][]any{{"EVAL", "local n = 0; for i = 1, 2e7 do n = n + i end", 0}}},
		{name: "connections are killed", commands: [][]any{{"CLIENT", "KILL", "TYPE", "normal"}}, cuts: true},
		{name: "the same, and scripts are flushed", commands: [][]any{{"SCRIPT", "FLUSH"}, {"CLIENT", "KILL", "TYPE", "normal"}}, cuts: true},
	} {
		for _, command := range row.commands {
			for _, s := range servers {
				if _, err := s.Do(command[0].(string), command[1:]...); err != nil && !row.cuts {
					t.Fatalf("%s: %v", row.name, err)
				}
			}
		}
		if err := free.TryLockContext(t.Context()); err == nil {
			free.Unlock()
		} else if !row.cuts && !row.odd {
			t.Errorf("%s: TryLockContext = %v, want the votes to count", row.name, err)
		}
		before := renewals.Load()
		eventually(t, row.name+", and the lease is renewed", func() bool { return renewals.Load() > before+1 })
	}
	if err := held.UnlockContext(t.Context()); err != nil {
		t.Errorf("UnlockContext = %v, want the lease to have lasted", err)
	}
	if strings.Contains(log.String(), "quarantine") {
		t.Errorf("the client says:%s\nwant no quarantine", log.String())
	}
	for i, s := range servers {
		if got := record(t, s); got != records[i] {
			t.Errorf("the record is %q, want it to be what it was, %q", got, records[i])
		}
		if ttl := do(t, s, "PTTL", incarnation.Key).(int64); ttl < time.Hour.Milliseconds() {
			t.Errorf("the record lives for %d ms, want until the year 2100", ttl)
		}
	}
}

func TestAQuarantineIsReportedAndEnds(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3)
	var log changes
	opts := brief()
	opts.Trace = log.trace()
	c := open(t, opts, addresses(servers)...)
	eventually(t, "all are quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 3 })
	var ends []time.Time
	for _, m := range c.Masters() {
		ends = append(ends, m.Until)
		if got := m.Until.Sub(m.Since); got <= 0 || got > 4*time.Second {
			t.Errorf("%s is in quarantine for %v, want up to 4s", m.Name, got)
		}
		q := "in quarantine until " + m.Until.Format("15:04:05") + ", for it may have forgotten locks: it has no memory of redlock"
		if m.Err == nil || !strings.HasPrefix(m.Err.Error(), q) || m.GuardErr != nil {
			t.Errorf("%s: Err = %v, GuardErr = %v, want %s and nil", m.Name, m.Err, m.GuardErr, q)
		}
	}
	l := c.Locker("a")
	for op, err := range map[string]error{"ping": c.Ping(t.Context()), "acquire": l.TryLockContext(t.Context())} {
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || quorum.Op != op || quorum.Granted != 0 || len(quorum.Errs) != 3 || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("%s: %v, want a QuorumError of three masters, and not ErrHeld", op, err)
			continue
		}
		for i, e := range quorum.Errs {
			var node *redlock.NodeError
			if !errors.As(e, &node) || node.Master != servers[i].Addr() || !strings.Contains(e.Error(), "in quarantine until ") {
				t.Errorf("%s: %v, want %s to be in quarantine", op, e, servers[i].Addr())
			}
		}
	}
	l.Lock()
	slices.SortFunc(ends, time.Time.Compare)
	if now := time.Now(); now.Before(ends[1]) {
		t.Errorf("it is locked at %v, want not before two masters may vote, at %v", now, ends[1])
	}
	l.Unlock()
	var up []redlock.MasterStatus
	eventually(t, "all are up, and a quorum answers", func() bool { // which may be late, on a busy machine
		up = c.Masters()
		if slices.ContainsFunc(up, func(m redlock.MasterStatus) bool { return m.State != redlock.MasterUp }) {
			return false
		}
		err := c.Ping(t.Context())
		if errors.Is(err, redlock.ErrQuarantined) {
			t.Fatalf("all are up, and Ping = %v", err)
		}
		return err == nil
	})
	for _, m := range up {
		told := fmt.Sprintf("\n%s is quarantined: in quarantine until ", m.Name)
		if at := strings.Index(log.String(), told); at < 0 || !strings.Contains(log.String()[at:], "\n"+m.Name+" is up: <nil>") {
			t.Errorf("the Trace says:%s\nwant %s to be quarantined and then up", log.String(), m.Name)
		}
		if !m.Until.IsZero() || m.Err != nil {
			t.Errorf("%s: Until = %v, Err = %v after the quarantine, want none", m.Name, m.Until, m.Err)
		}
	}
	testLaterClients(t, servers)
}

// testLaterClients opens clients of masters whose memory has been known for the quarantine of brief's clients.
func testLaterClients(t *testing.T, servers []*redisserver.Server) {
	var log changes
	opts := brief()
	opts.Trace = log.trace()
	c := openReal(t, servers, opts)
	eventually(t, "a new client has the lock", c.Locker("a").TryLock) // the masters may be late, on a busy machine
	if strings.Contains(log.String(), "quarantine") {
		t.Errorf("the Trace of a new client says:%s\nwant no quarantine", log.String())
	}
	opts = brief()
	opts.MaxTTL = time.Hour
	c = open(t, opts, addresses(servers)...)
	eventually(t, "all are quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 3 })
	for i, m := range c.Masters() {
		r, _ := incarnation.Parse(record(t, servers[i]))
		if got := m.Until.Sub(r.Since); got < time.Hour+2*time.Second || got > time.Hour+time.Minute {
			t.Errorf("with a MaxTTL of an hour, %s is in quarantine for %v, want an hour and 2s", m.Name, got)
		}
		if !strings.Contains(m.Err.Error(), known) {
			t.Errorf("with a MaxTTL of an hour, %s: %v, want it to say for how long it is known", m.Name, m.Err)
		}
	}
}

func TestUnderLoadNoMasterIsQuarantinedByMistake(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	var log changes
	c := openReal(t, servers, &redlock.Options{DialTimeout: 300 * time.Millisecond, Trace: log.trace()})
	eventually(t, "all are connected", func() bool { return locktest.States(c, redlock.MasterUp) == 5 })
	var locks atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range 64 {
		all.Go(func() {
			l := c.Locker(fmt.Sprint("a", i))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if l.LockContext(t.Context()) == nil {
					locks.Add(1)
					l.UnlockContext(t.Context())
				}
			}
		})
	}
	// One freeze is not noticed. During the other, the connection is closed.
	for _, nap := range []time.Duration{100 * time.Millisecond, 600 * time.Millisecond} {
		for i := range 4 {
			do(t, servers[2], "SCRIPT", "FLUSH")
			servers[i].Freeze()
			time.Sleep(nap)
			servers[i].Thaw()
			do(t, servers[3], "SCRIPT", "FLUSH")
			eventually(t, "all are back", func() bool { return locktest.States(c, redlock.MasterUp) == 5 })
		}
	}
	close(stop)
	all.Wait()
	t.Logf("%d locks", locks.Load())
	if strings.Contains(log.String(), "quarantine") {
		t.Errorf("the client says:%s\nwant no quarantine", log.String())
	}
	if got := record(t, servers[0]); !strings.HasSuffix(got, " adopted") {
		t.Errorf("the record is %q, want nobody to have written another", got)
	}
}
