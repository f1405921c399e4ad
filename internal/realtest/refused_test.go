package realtest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestServersThatMayNotVoteAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	first := redisserver.AdoptedTB(t, 1)[0]
	host, port, _ := strings.Cut(first.Addr(), ":")
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"a replica", []string{"--replicaof", host + " " + port}, "it is a replica"},
		{"a cluster's member", []string{"--cluster-enabled", "yes"}, "it is part of a cluster"},
		{"a Sentinel", []string{"--sentinel"}, "it is a Sentinel, which keeps no locks"},
		{"one that evicts", []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, "its maxmemory-policy, volatile-ttl, may evict locks"},
		{"one that would evict and has no limit", []string{"--maxmemory-policy", "allkeys-lru"}, ""},
		{"one with a limit that evicts nothing", []string{"--maxmemory", "100mb"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := redisserver.StartTB(t, 1, row.args...)[0]
			if row.want == "" {
				if err := s.Adopt(); err != nil {
					t.Fatal(err)
				}
			}
			c, err := redlock.Open([]string{s.Addr()}, busy())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			err = c.Locker("a").TryLockContext(t.Context())
			status := c.Masters()[0]
			if row.want == "" {
				if err != nil || status.State != redlock.MasterUp {
					t.Errorf("TryLockContext = %v, the master is %s, want it to vote", err, status.State)
				}
				return
			}
			if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("TryLockContext = %v, want it to say that %s", err, row.want)
			}
			if status.State != redlock.MasterRefused || status.Err == nil || !strings.Contains(status.Err.Error(), row.want) {
				t.Errorf("the master is %s (%v), want refused: %s", status.State, status.Err, row.want)
			}
			if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("Ping = %v, want it to say that %s", err, row.want)
			}
		})
	}
}

func TestAReplicaThatIsMadeAMasterVotes(t *testing.T) {
	t.Parallel()
	first := redisserver.AdoptedTB(t, 1)[0]
	host, port, _ := strings.Cut(first.Addr(), ":")
	s := redisserver.StartTB(t, 1, "--replicaof", host+" "+port)[0]
	c, err := redlock.Open([]string{s.Addr()}, busy())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "it is refused", func() bool { return locktest.States(c, redlock.MasterRefused) == 1 })
	if _, err := s.Do("REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 1 })
	if err := s.Adopt(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it votes", func() bool { return c.Locker("a").TryLock() })
}

func TestAServerOfTwoAddressesHasOneVote(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 2)
	// Three addresses of one server, and one of another.
	same := []string{proxy.TB(t, servers[0].Addr()).Addr(), servers[0].Addr(), proxy.TB(t, servers[0].Addr()).Addr()}
	c, err := redlock.Open(append(same, servers[1].Addr()), busy())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "one of the three votes, and the others do not", func() bool {
		return locktest.States(c, redlock.MasterUp) == 2 && locktest.States(c, redlock.MasterRefused) == 2 && c.Masters()[3].State == redlock.MasterUp
	})
	for _, m := range c.Masters()[:3] {
		if m.State == redlock.MasterRefused && (m.Err == nil || !strings.Contains(m.Err.Error(), "it is the same server as ")) {
			t.Errorf("%s: %v, want it to name the one that votes", m.Name, m.Err)
		}
	}
	err = c.Locker("a").TryLockContext(t.Context())
	var quorum *redlock.QuorumError
	if !errors.As(err, &quorum) || quorum.Granted > 2 || quorum.Need != 3 || errors.Is(err, redlock.ErrHeld) {
		t.Errorf("TryLockContext = %v, want two votes at most, of four masters, and three needed", err)
	}
}
