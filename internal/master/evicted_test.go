package master

import (
	"strings"
	"testing"
	"time"
)

const evicts = "maxmemory-policy, volatile-ttl, may evict locks"

// To a client, a lock that was evicted is free.
func TestAVoteAfterAnEvictionDoesNotCount(t *testing.T) {
	for _, row := range []struct {
		name    string
		used    int  // % of maxmemory
		at      int  // the eviction, in ms after a heartbeat
		counts  bool // the vote right after it
		unknown bool // the record does not count evictions
	}{
		{name: "the memory was nearly full", used: 80},
		{name: "it was not, and a heartbeat comes first", used: 10, at: 1100},
		// What is not covered: docs/guarantees.md.
		{name: "it was not", used: 10, counts: true},
		{name: "the record does not count evictions", used: 80, counts: true, unknown: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
				v, m := servers[0], masters[0]
				if row.unknown {
					forgetCount(v)
				}
				v.fills(row.used, 100, "noeviction", 0)
				time.Sleep(2500 * time.Millisecond) // halfway between two heartbeats
				if a := vote(t, m); !a.Done() {
					t.Fatalf("before keys are evicted: %+v, want a vote", a)
				}
				v.fills(row.used, 100, "noeviction", 1)
				time.Sleep(time.Duration(row.at) * time.Millisecond)
				if a := vote(t, m); a.Done() != row.counts {
					t.Errorf("after keys were evicted: %+v, want a vote that counts: %v", a, row.counts)
				}
				if row.unknown {
					wantState(t, m, Up, "")
					return
				}
				wantState(t, m, Quarantined, "it has evicted keys")
				if !strings.HasSuffix(v.get(), " 1") {
					t.Errorf("the record is %q, want it to be new", v.get())
				}
				time.Sleep(time.Minute)
				if a := vote(t, m); !a.Done() {
					t.Errorf("after the quarantine: %+v, want a vote", a)
				}
			})
		})
	}
}

// forgetCount replaces the record by one that does not count evictions, and waits for the end of the quarantine.
func forgetCount(v *memory) {
	v.set(recordOf(v.run, time.Now(), minute, ""))
	time.Sleep(time.Minute + 2*time.Second)
}

func TestAPolicyThatEvictsIsNoticedWhileConnected(t *testing.T) {
	for _, row := range []struct {
		name    string
		unknown bool  // the record does not count evictions
		evicted int   // keys, meanwhile
		want    State // when the policy is as before
	}{
		{"no key was evicted", false, 0, Up},
		{"keys were evicted", false, 7, Quarantined},
		{"nobody knows whether keys were evicted", true, 0, Quarantined},
	} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
				v, m := servers[0], masters[0]
				if row.unknown {
					forgetCount(v)
				}
				wantState(t, m, Up, "")
				v.fills(10, 0, "volatile-ttl", 0) // no limit
				time.Sleep(2 * time.Second)
				wantState(t, m, Up, "")
				v.fills(10, 100, "volatile-ttl", row.evicted)
				time.Sleep(2 * time.Second)
				wantState(t, m, Refused, evicts)
				v.fills(10, 100, "noeviction", row.evicted)
				time.Sleep(2 * time.Second)
				wantState(t, m, row.want, "")
			})
		})
	}
}
