package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A doctorJSON is what `redlock doctor --json` prints.
type doctorJSON struct {
	Masters []struct {
		Name, Role string
		Votes      bool
		Wait       int64   `json:"wait_ms"`
		RTT        float64 `json:"rtt_ms"`
		MaxTTL     int64   `json:"max_ttl_ms"`
		Why        []string

		Server, Eviction, AOF, Snapshots string

		Clients *int
		Ahead   *float64 `json:"clock_ahead_ms"`
	}
	Now, Later, Need int
	Able             bool
	MaxTTL           int64 `json:"max_ttl_ms"`
	NodeTimeout      int64 `json:"node_timeout_ms"`
	Adopt, Verdict   []string

	Strays []struct {
		Owner   string
		Masters int
		On, Off []string
	}
}

// doctorSays runs `redlock doctor --json`.
func doctorSays(t *testing.T, status int, masters string, flags ...string) (says doctorJSON) {
	t.Helper()
	out := runDoctor(t, status, masters, append(flags, "--json")...)
	if err := json.Unmarshal([]byte(out), &says); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: not one line of JSON:\n%s", err, out)
	}
	return says
}

func TestDoctorAsJSON(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3)
	masters := listOf(servers)
	says := doctorSays(t, exitNoQuorum, masters)
	if says.Now != 0 || says.Later != 3 || says.Need != 2 || says.Able || says.MaxTTL != 10_000 || says.NodeTimeout < 50 {
		t.Errorf("new masters: %+v", says)
	}
	for i, m := range says.Masters {
		if m.Name != servers[i].Addr() || m.Role != "master" || m.Votes || m.Wait != 12_000 || m.RTT <= 0 || len(m.Why) != 1 || !strings.HasPrefix(m.Why[0], "no record") {
			t.Errorf("a new master: %+v", m)
		}
	}
	if len(says.Verdict) < 3 || says.Verdict[0] != "0 of 3 masters can vote now; a lock needs 2." {
		t.Errorf("verdict: %q", says.Verdict)
	}
	says = doctorSays(t, exitOK, masters, "--adopt")
	if says.Now != 3 || !says.Able || len(says.Adopt) != 3 || says.Adopt[0] != servers[0].Addr()+": adopted" || !says.Masters[0].Votes || says.Masters[0].Wait != 0 {
		t.Errorf("adopted masters: %+v", says)
	}
	c := openQuietly(t, masters, redlock.Options{MaxTTL: time.Minute})
	hold(t, c, "stock")
	if err := servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	says = doctorSays(t, exitOK, masters)
	if m := says.Masters[0]; m.Votes || m.Wait != -1 || m.Role != "" || m.RTT != 0 || len(m.Why) != 2 || m.Why[0] != "not reachable: connection refused" {
		t.Errorf("a master that is down: %+v", m)
	}
	if says.Now != 2 || !says.Able || says.MaxTTL != 60_000 || says.Masters[1].MaxTTL != 60_000 {
		t.Errorf("with a client: %+v", says)
	}
}
