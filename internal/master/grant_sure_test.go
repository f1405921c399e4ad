package master

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// grants returns what the server says in a message about a grant.
func (v *memory) grants() wire.Memory {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.record == "" {
		return wire.Memory{Run: v.run, Left: -2}
	}
	return wire.Memory{Run: v.run, Left: v.expiry - time.Now().Add(v.off).UnixMilli()}
}

// hide makes the server keep its run_id from the client.
func (v *memory) hide() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.run = ""
}

// persist makes PTTL of the record -1.
func (v *memory) persist() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expiry = time.Now().Add(v.off).UnixMilli() - 1
}

// The message about a grant says in which memory the key was set. No probe follows it.
func TestAGrantCountsOnlyIfTheMemoryIsUnchanged(t *testing.T) {
	for _, row := range []struct {
		name   string
		happen func(v *memory)
		want   bool
	}{
		{"nothing", func(*memory) {}, true},
		{"the memory is nearly full", func(v *memory) {
			v.fills(80, 100, "noeviction", 0) // keys may have been evicted before the grant
			time.Sleep(2 * time.Second)
		}, false},
		{"the memory is not full", func(v *memory) {
			v.fills(70, 100, "noeviction", 0)
			time.Sleep(2 * time.Second)
		}, true},
		{"the clock is corrected by a little", func(v *memory) { v.step(10 * time.Millisecond) }, true},
		{"the scripts are flushed", (*memory).flushScripts, true},
		{"the server restarts", (*memory).restart, false},
		{"the server hides its run_id", (*memory).hide, false},
		{"all is flushed", func(v *memory) { v.set("") }, false},
		{"another database is swapped in", func(v *memory) { v.set(recordOf(v.run, time.Now().Add(-48*time.Hour), 0, "")) }, false},
		{"the record's expiry is set", (*memory).expire, false},
		{"the record lives for ever", (*memory).persist, false},
		{"the clock steps", func(v *memory) { v.step(time.Second) }, false},
		{"the clock steps back", func(v *memory) { v.step(-time.Second) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
				mark := clock.System()
				time.Sleep(100 * time.Millisecond)
				row.happen(servers[0])
				if got := masters[0].sure(servers[0].grants(), mark); got != row.want {
					t.Errorf("the grant counts: %t, want %t", got, row.want)
				}
			})
		})
	}
}

// A client without the right to INFO has written the record, and another one has granted the lock.
func TestAGrantWithoutARunIDDoesNotCountWhateverTheRecordSays(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.hide()
		v.set("")
		vote(t, m) // finds out
		time.Sleep(time.Minute)
		wantState(t, m, Up, "")
		if r, _ := incarnation.Parse(v.get()); r.Run != wire.NoRun {
			t.Fatalf("the record says %q, want no run_id", v.get())
		}
		mark := clock.System()
		time.Sleep(100 * time.Millisecond)
		grant := v.grants()
		grant.Run = wire.NoRun
		if m.sure(grant, mark) {
			t.Error("the grant counts, want that a poll asks")
		}
	})
}

// A grant of a memory that has forgotten locks counts when all leases that it has forgotten have ended.
func TestAGrantCountsOnlyAfterTheQuarantine(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		since := time.Now()
		v.set("")
		vote(t, m) // finds out
		wantState(t, m, Quarantined, "it has no memory")
		ended := m.Status().Until
		if left := ended.Sub(since); left < time.Minute {
			t.Fatalf("the quarantine lasts for %v, want a minute", left)
		}
		before := clock.System()
		if m.sure(v.grants(), before) {
			t.Error("a grant in quarantine counts")
		}
		time.Sleep(time.Until(ended) - time.Millisecond)
		last := clock.System()
		time.Sleep(5 * time.Second)
		wantState(t, m, Up, "")
		for _, mark := range []clock.Reading{before, last} {
			if m.sure(v.grants(), mark) {
				t.Errorf("a grant counts that may have been made %v before the end of the quarantine", ended.Sub(mark.Time()))
			}
		}
		if !m.sure(v.grants(), clock.System()) {
			t.Error("a grant after the quarantine does not count")
		}
	})
}

func TestAGrantCountsOnlyWhileTheMasterIsUp(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		mark := clock.System()
		v.become("slave")
		vote(t, m)
		wantState(t, m, Refused, "it is a replica")
		if m.sure(v.grants(), mark) {
			t.Error("a grant of a replica counts")
		}
	})
}

func TestWithoutTheGuardEveryGrantCounts(t *testing.T) {
	for _, up := range []bool{true, false} {
		run(t, func(conn int, cmd []string) string {
			if !up {
				return hangUp
			}
			return ok(conn, cmd)
		}, func(t *testing.T, m *Master, _ *fake) {
			if got := m.sure(wire.Memory{Run: "", Left: -2}, clock.System()); got != up {
				t.Errorf("the master is up: %t, and the grant counts: %t", up, got)
			}
		})
	}
}

// sure only looks. Otherwise a message could make a client take a clock for another.
func TestAMessageDoesNotChangeWhatIsKnownOfTheServersClock(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		mark := clock.System()
		for _, by := range []int64{1_000_000, -1_000_000, 15, 30, 45, 60} {
			says := v.grants()
			says.Left += by
			m.sure(says, mark)
		}
		if !m.sure(v.grants(), mark) {
			t.Error("after false messages, a true one does not count")
		}
		if a := vote(t, m); !a.Done() {
			t.Errorf("after false messages, a vote is answered %+v", a)
		}
	})
}

// TestAGrantCountsFromTheLastPingThatWasAnswered sends a grant behind the answers to SUBSCRIBE and to the first ping,
// and between a ping that has arrived and its answer. The last of these may have been made before that ping.
func TestAGrantCountsFromTheLastPingThatWasAnswered(t *testing.T) {
	for _, row := range []struct{ g, every time.Duration }{{wire.GrantLeast, 100 * time.Millisecond}, {time.Second, 240 * time.Millisecond}} {
		t.Run(row.g.String(), func(t *testing.T) { grantsBetweenPings(t, row.g, row.every) })
	}
}

// grantsBetweenPings has a server send a grant before and after its answer to each ping. A claim with this g is near, so pings are sent as often as every
// says.
func grantsBetweenPings(t *testing.T, g, every time.Duration) {
	bubbletest.Test(t, func(t *testing.T) {
		v := newMemory(0)
		message := func(name string) string {
			o := v.grants()
			return "*3\r\n" + fakeserver.Bulk("message") + fakeserver.Bulk(wire.WakeChannel+"me") +
				fakeserver.Bulk(fmt.Sprintf("+ %s %s %d 0 k", name, o.Run, o.Left))
		}
		var mu sync.Mutex    // guards what follows
		var sent []time.Time // SUBSCRIBE and the pings
		var order []string   // of what was granted
		marks := make(map[string]time.Time)
		v.before(func(cmd []string) string {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case cmd[0] == "SUBSCRIBE":
				sent = append(sent, time.Now())
				return "*3\r\n" + fakeserver.Bulk("subscribe") + fakeserver.Bulk(cmd[1]) + ":1\r\n" + message("behind-SUBSCRIBE")
			case cmd[0] == "UNSUBSCRIBE":
				return hangUp
			case cmd[0] == "PING" && len(cmd) == 2:
				sent = append(sent, time.Now())
				pong := "*2\r\n" + fakeserver.Bulk("pong") + fakeserver.Bulk(cmd[1])
				return message("before-"+cmd[1]) + pong + message("behind-"+cmd[1])
			}
			return ""
		})
		m := Start(Config{
			Pool: v.Pool(), ID: "me", Servers: alone(minute),
			NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second, g: g, freed: func(key, token string) {
				t.Errorf("%q was left free by %q", key, token)
			}, granted: func(i int, g Grant) {
				mu.Lock()
				defer mu.Unlock()
				if i != 0 || g.Key != "k" {
					t.Errorf("granted %+v by master %d", g, i)
				}
				order = append(order, g.Token)
				marks[g.Token] = g.Mark.Time()
				if strings.Contains(g.Token, "-3") && !g.Sure(g.Mark) {
					t.Errorf("the grant %s does not count", g.Token)
				}
			}},
		})
		synctest.Wait()
		m.PingOften()
		time.Sleep(every * 7 / 2)
		synctest.Wait()
		m.Close()
		<-m.Done()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"behind-SUBSCRIBE", "before-1", "behind-1", "before-2", "behind-2", "before-3", "behind-3"}; !slices.Equal(order[:min(len(order), len(want))], want) {
			t.Fatalf("granted %q, want %q", order, want)
		}
		for i, name := range []string{"behind-SUBSCRIBE", "behind-1", "behind-2", "behind-3"} {
			if got := marks[name]; !got.Equal(sent[i]) {
				t.Errorf("%s counts from %v after SUBSCRIBE, want %v", name, got.Sub(sent[0]), sent[i].Sub(sent[0]))
			}
			next := fmt.Sprint("before-", i+1)
			if got := marks[next]; i < 3 && !got.Equal(sent[i]) {
				t.Errorf("%s counts from %v after SUBSCRIBE, want %v", next, got.Sub(sent[0]), sent[i].Sub(sent[0]))
			}
		}
		for i := 2; i < 4; i++ {
			if d := sent[i].Sub(sent[i-1]); d != every {
				t.Errorf("ping %d is sent %v after the one before, want %v", i, d, every)
			}
		}
	})
}
