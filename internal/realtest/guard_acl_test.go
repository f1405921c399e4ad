package realtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// as returns a server's URL for a user with rules.
func as(t *testing.T, s *redisserver.Server, user string, rules ...any) string {
	t.Helper()
	do(t, s, "ACL", append([]any{"SETUSER", user, "on", ">s3cr3t", "&*"}, rules...)...)
	return "redis://" + user + ":s3cr3t@" + s.Addr()
}

func TestAMasterThatCannotKeepItsRecordIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		rules []any
	}{
		{"the key is forbidden", []any{"+@all", "~a"}},
		{"the key may be read only", []any{"+@all", "~a", "%R~redlock:*"}},
		{"transactions are forbidden", []any{"+@all", "-multi", "~*"}},
		{"the time is forbidden", []any{"+@all", "-time", "~*"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := redisserver.StartTB(t, 1)[0]
			url := as(t, s, "shop", row.rules...)
			c := open(t, patient(), url)
			err := c.Locker("a").TryLockContext(t.Context())
			m := c.Masters()[0]
			want := "it cannot keep the record of its restarts, " + incarnation.Key + " ("
			for _, err := range []error{err, c.Ping(t.Context()), m.Err} {
				if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), want) ||
					!strings.Contains(err.Error(), "disable the restart guard") {
					t.Errorf("%v, want %s", err, want)
				}
			}
			if m.State != redlock.MasterRefused {
				t.Errorf("the master is %s, want refused", m.State)
			}
			opts := patient()
			opts.DisableRestartGuard = true
			if err := open(t, opts, url).Locker("a").TryLockContext(t.Context()); err != nil {
				t.Errorf("without the guard: TryLockContext = %v, want the lock", err)
			}
		})
	}
}

func TestAServerThatHidesItsRunIDVotesAndGuardErrSaysSo(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	c := open(t, brief(), as(t, s, "blind", "+@all", "-info", "~*"))
	eventually(t, "it is quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 1 })
	if m := c.Masters()[0]; m.GuardErr == nil || !strings.Contains(m.GuardErr.Error(), "run_id") {
		t.Errorf("GuardErr = %v, want it to say that restarts cannot be detected", m.GuardErr)
	}
	eventually(t, "it votes", func() bool { return c.Locker("a").TryLock() })
	if m := c.Masters()[0]; m.State != redlock.MasterUp || m.GuardErr == nil {
		t.Errorf("%s, GuardErr = %v, want it to be up and say that restarts cannot be detected", m.State, m.GuardErr)
	}
	opts := brief()
	opts.DisableRestartGuard = true
	unguarded := open(t, opts, "redis://blind:s3cr3t@"+s.Addr())
	eventually(t, "the Client without a guard is connected", func() bool { return locktest.States(unguarded, redlock.MasterUp) == 1 })
	if err := unguarded.Masters()[0].GuardErr; err != nil {
		t.Errorf("GuardErr without the guard = %v, want nil", err)
	}
	// Without the run_id, the loss of the record is still noticed.
	do(t, s, "FLUSHALL")
	wantQuarantined(t, c, absent)
}

// TestARestartOfAServerThatHidesItsRunIDIsNotNoticed also checks that the weakened guard is logged once, however
// often the server restarts.
func TestARestartOfAServerThatHidesItsRunIDIsNotNoticed(t *testing.T) {
	t.Parallel()
	s, url := blindServer(t)
	var log locktest.Log
	opts := log.Options()
	opts.NodeTimeout = nodeTimeout
	c := open(t, opts, url)
	eventually(t, "a line of the log", func() bool { return len(log.Lines("unnoticed")) > 0 })
	for range 3 {
		eventually(t, "the master votes", func() bool { return c.Ping(t.Context()) == nil })
		before := c.Masters()[0].Since
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the client has reconnected, without a quarantine", func() bool {
			m := c.Masters()[0]
			if m.State == redlock.MasterQuarantined {
				t.Fatalf("the master is quarantined: %v", m.Err)
			}
			return m.State == redlock.MasterUp && m.Since.After(before)
		})
	}
	c.Close() // writes what would be logged later
	log.Want(t, 1, "unnoticed")
	log.Want(t, 1, `level=WARN msg="redlock: restarts of masters may go unnoticed"`, `why="restarts cannot be detected`)
}

// blindServer returns a server that keeps its data when it restarts, and the URL of a user that may not call INFO.
func blindServer(t *testing.T) (*redisserver.Server, string) {
	t.Helper()
	acl := filepath.Join(t.TempDir(), "users.acl")
	rules := "user default on nopass ~* &* +@all\nuser blind on >s3cr3t ~* &* +@all -info\n"
	if err := os.WriteFile(acl, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := redisserver.AdoptedTB(t, 1, append([]string{"--aclfile", acl}, persistent...)...)[0]
	return s, "redis://blind:s3cr3t@" + s.Addr()
}

// Once a client with all rights has written the record, clients with fewer rights do not replace it.
func TestClientsWithDifferentRightsAgreeOnTheRecord(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	var all []*redlock.Client
	for i, rules := range [][]any{{"-info", "-client"}, {"-client"}, {"-info"}, {}} {
		c := open(t, nil, as(t, s, fmt.Sprint("shop", i), append([]any{"+@all", "~*"}, rules...)...))
		eventually(t, "it is quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 1 })
		all = append(all, c)
	}
	settled := record(t, s)
	if strings.Contains(settled, "-") {
		t.Errorf("the record is %q, want that of the client that may see all", settled)
	}
	looks := calls(t, s, "pttl")
	eventually(t, "all have sent two probes", func() bool { return calls(t, s, "pttl") >= looks+2*len(all) })
	if got := record(t, s); got != settled {
		t.Errorf("the record is %q, want it to be what it was, %q", got, settled)
	}
	for _, c := range all { // one that has found the record of another client may still be connecting again
		eventually(t, "it is quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 1 })
	}
	if got := record(t, s); got != settled {
		t.Errorf("the record is %q in the end, want %q", got, settled)
	}
}

// One client may not call INFO, and the other may not call CLIENT INFO.
func TestClientsWithPartialRightsAgreeOnTheRecord(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	a := open(t, brief(), as(t, s, "a", "+@all", "-client", "~*"))
	b := open(t, brief(), as(t, s, "b", "+@all", "-info", "~*"))
	eventually(t, "it votes for both", func() bool {
		return locktest.States(a, redlock.MasterUp) == 1 && locktest.States(b, redlock.MasterUp) == 1
	})
}

func TestGuardErrIsSetOnlyForTheClientThatCannotDetectRestarts(t *testing.T) {
	t.Parallel()
	s := redisserver.AdoptedTB(t, 1)[0] // its record has the run_id
	c := openReal(t, []*redisserver.Server{s}, nil)
	blind := open(t, nil, as(t, s, "blind", "+@all", "-info", "~*"))
	eventually(t, "it is connected", func() bool { return locktest.States(blind, redlock.MasterUp) == 1 })
	if err := c.Masters()[0].GuardErr; err != nil {
		t.Errorf("GuardErr = %v, want nil", err)
	}
	if blind.Masters()[0].GuardErr == nil {
		t.Error("GuardErr = nil of a client that may not read the run_id, and would count the votes of a restarted master")
	}
}

// A client that may not call INFO takes the new process for the old one. A client that may call INFO must notice
// the restart, although a proxy keeps its connection.
func TestAClientThatCannotReadTheRunIDDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	s, url := blindServer(t)
	p := proxy.TB(t, s.Addr())
	p.KeepAll()
	c, blind := open(t, patient(), p.Addr()), open(t, patient(), url)
	eventually(t, "both are connected", func() bool {
		return locktest.States(c, redlock.MasterUp) == 1 && locktest.States(blind, redlock.MasterUp) == 1
	})
	at := time.Now()
	restart(t, s, p)
	eventually(t, "the blind one is connected again", func() bool {
		blind.Ping(t.Context())
		m := blind.Masters()[0]
		return m.Since.After(at) && (m.State == redlock.MasterUp || m.State == redlock.MasterQuarantined)
	})
	wantQuarantined(t, c, "")
}
