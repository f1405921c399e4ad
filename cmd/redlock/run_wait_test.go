package main

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestRunSaysThatTheMastersAreInQuarantine(t *testing.T) {
	t.Parallel()
	_, list := freshMasters(t, 5)
	masters := firstDown(list, 1)
	for _, wait := range []string{"0", "6s"} {
		r := startRun(t, masters, []string{"--wait", wait}, "exit", "0")
		r.wantEnd(exitNoQuorum, "redlock: error: no quorum of the masters", "in quarantine until ",
			"redlock: hint: wait until the quarantine ends", "redlock doctor --adopt")
		if strings.Contains(r.said(), "held by another") {
			t.Errorf("it says that the lock is held:\n%s", r.said())
		}
	}
}

func TestRunSaysWhatToDoAboutAddresses(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	for _, tt := range []struct{ url, want string }{
		{"127.0.0.1:1", "127.0.0.1:1: connection refused (no server listens at this address)"},
		{"rediss://" + s.Addr(), s.Addr() + ": it does not speak TLS (use redis://, or the server's port for TLS)"},
	} {
		r := startRun(t, tt.url, []string{"--wait", "0"}, "exit", "0")
		r.wantEnd(exitNoQuorum, tt.want, "redlock: hint: a majority of the masters must answer; redlock doctor says more\n")
	}
}

// Waiting cures neither a right that is missing nor a key that is not a lock. So a run without --wait ends, too.
func TestRunEndsAWaitThatIsInVain(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	var urls []string
	for _, s := range servers {
		do(t, s, "ACL", "SETUSER", "app", "on", ">pw", "~shop:*", "~redlock:*", "&redlock:*", "+@all")
		do(t, s, "SET", "data", "of somebody")
		do(t, s, "RPUSH", "list", "x")
		urls = append(urls, "redis://app:pw@"+s.Addr())
	}
	r := startRun(t, strings.Join(urls, ","), nil, "exit", "0")
	r.wantEnd(exitNoQuorum, "redlock: error: the masters deny access: ", "NOPERM", "redlock: hint: redlock doctor --acl prints the rights that are needed")
	for name, why := range map[string]string{"data": "the key has no expiry, so it is not a lock", "list": "the key holds data that is not a lock"} {
		for _, wait := range [][]string{nil, {"--wait", "0"}} {
			startRun(t, listOf(servers), append([]string{"--name", name}, wait...), "exit", "0").wantEnd(exitNoQuorum, "redlock: error: no lock can have this name: ", why, "redlock: hint: use another name")
		}
		for _, s := range servers {
			if n := do(t, s, "EXISTS", name); n != int64(1) {
				t.Errorf("EXISTS %s = %v, want the data still there", name, n)
			}
		}
	}
}
