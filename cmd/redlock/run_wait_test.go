package main

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock"
)

func TestRunSaysThatTheMastersAreInQuarantine(t *testing.T) {
	servers, masters := freshMasters(t, 5)
	servers[0].Close()
	for _, wait := range []string{"0", "1s"} {
		r := startRun(t, masters, []string{"--wait", wait}, "exit", "0")
		r.wantEnd(exitNoQuorum, "redlock: error: no quorum of the masters: they are in quarantine",
			"redlock: hint: ", "redlock doctor --adopt")
		if strings.Contains(r.said(), "held by another") {
			t.Errorf("it says that the lock is held:\n%s", r.said())
		}
	}
}

func TestInQuarantine(t *testing.T) {
	const up, down, q, connecting = redlock.MasterUp, redlock.MasterDown, redlock.MasterQuarantined, redlock.MasterConnecting
	for _, tt := range []struct {
		name   string
		states []redlock.MasterState
		want   bool
	}{
		{"all", []redlock.MasterState{q, q, q}, true},
		{"enough beside the dead", []redlock.MasterState{down, q, q}, true},
		{"one too many", []redlock.MasterState{up, q, down}, true},
		{"not known yet", []redlock.MasterState{down, q, connecting}, true},
		{"too many dead", []redlock.MasterState{down, down, q}, false},
		{"a quorum up", []redlock.MasterState{up, up, q}, false},
		{"none", []redlock.MasterState{down, down, connecting}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var masters []redlock.MasterStatus
			for _, s := range tt.states {
				masters = append(masters, redlock.MasterStatus{State: s})
			}
			if got := inQuarantine(masters); got != tt.want {
				t.Errorf("inQuarantine(%v) = %v, want %v", tt.states, got, tt.want)
			}
		})
	}
}
