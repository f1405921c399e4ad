package master

import (
	"github.com/redlock-go/redlock/internal/wire"
	"testing"
	"testing/synctest"
	"time"
)

// The decision that a record is stale does not apply to the next record.
func TestOnlyTheRecordThatWasFoundStaleIsReplaced(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		slowAt(servers[1], "PING", 300*time.Millisecond)
		v.step(120 * time.Second)
		time.Sleep(1100 * time.Millisecond) // its clock has jumped, and the other master is asked whether it was our clock
		v.set(recordOf(v.run, time.Now().Add(120*time.Second), minute, " adopted"))
		m.Ask(wire.Renew, claimOf("a"), nil) // has a probe behind it, which finds the adoption
		time.Sleep(200 * time.Millisecond)
		wantState(t, m, Up, "")
		adopted := v.get()
		time.Sleep(3 * time.Second) // the other master has answered
		v.doubt()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		wantState(t, m, Up, "")
		if got := v.get(); got != adopted {
			t.Errorf("the record is %q, want it to be what it was, %q", got, adopted)
		}
	})
}

// A jump that no other master can explain is forgotten when the record is replaced.
func TestAnUnexplainedJumpIsForgottenWithItsRecord(t *testing.T) {
	for _, row := range []struct {
		name, more string
		state      State
	}{{"adopted", " adopted", Up}, {"written by another client", "", Quarantined}} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 3, func(t *testing.T, masters []*Master, servers []*memory) {
				v, m := servers[0], masters[0]
				for _, o := range servers[1:] {
					o.before(func([]string) string { return hangUp })
				}
				time.Sleep(1500 * time.Millisecond)
				v.step(120 * time.Second)
				time.Sleep(3500 * time.Millisecond)
				wantState(t, m, Quarantined, "")
				record := recordOf(v.run, time.Now().Add(120*time.Second), minute, row.more)
				v.set(record)
				time.Sleep(3500 * time.Millisecond)
				wantState(t, m, row.state, "")
				for _, o := range servers[1:] {
					o.before(nil)
				}
				time.Sleep(3500 * time.Millisecond)
				v.doubt()
				time.Sleep(1500 * time.Millisecond)
				synctest.Wait()
				wantState(t, m, row.state, "")
				if got := v.get(); got != record {
					t.Errorf("the record is %q, want it to be what it was, %q", got, record)
				}
			})
		})
	}
}

// It is also forgotten when its quarantine ends: then the record is valid again.
func TestAnUnexplainedJumpIsForgottenAfterTheQuarantine(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		before := v.get()
		servers[1].before(func([]string) string { return hangUp })
		time.Sleep(1500 * time.Millisecond)
		v.step(5 * time.Second)
		time.Sleep(70 * time.Second)
		wantState(t, m, Up, "")
		servers[1].before(nil)
		time.Sleep(5 * time.Second)
		v.doubt()
		time.Sleep(1500 * time.Millisecond)
		wantState(t, m, Up, "")
		if v.get() != before {
			t.Error("the record is written anew, a minute after its votes count again")
		}
	})
}

// A client that learns of a step from the new record of another client does not replace that record.
func TestANewRecordAfterTheClockWasSetBackIsNotReplaced(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v := servers[0]
		time.Sleep(1500 * time.Millisecond)
		v.step(-2 * time.Minute)
		record := recordOf(v.run, time.Now().Add(-2*time.Minute), minute, "")
		v.set(record)
		time.Sleep(10 * time.Second)
		wantState(t, masters[0], Quarantined, "its memory is known for ")
		if got := v.get(); got != record {
			t.Errorf("the record is %q, want it to be as it was written, %q", got, record)
		}
	})
}

// A stale record is replaced once, not with each connection.
func TestAStaleRecordIsReplacedOnce(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v := servers[0]
		before := v.get()
		v.step(time.Minute)
		time.Sleep(4 * time.Second)
		after := v.get()
		if after == before {
			t.Fatal("the record is not written anew")
		}
		v.doubt()
		time.Sleep(4 * time.Second)
		if got := v.get(); got != after {
			t.Errorf("the record is %q, want %q", got, after)
		}
	})
}
