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
