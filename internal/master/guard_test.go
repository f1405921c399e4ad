package master

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// What happens between a vote and the probe behind it, or between that and a look,
// makes the vote void, if it was a loss.
func TestAVoteCountsIfTheMemoryIsTheOneThatIsKnown(t *testing.T) {
	for _, row := range []struct {
		name   string
		happen func(v *memory)
		want   string // why it does not count
		state  State
	}{
		{"nothing", func(*memory) {}, "", Up},
		{"the scripts are flushed", (*memory).flushScripts, "", Up},
		{"the record's expiry is set", (*memory).expire, "its clock has jumped by -5s", Quarantined}, // as it seems
		{"the record is lost", func(v *memory) { v.set("") }, "it has no memory", Quarantined},
		{"the server restarts", (*memory).restart, "another server answers", Up},
		{"the clock steps", func(v *memory) { v.step(2 * time.Minute) }, "its clock has jumped by 2m0s", Quarantined},
		{"the clock steps back", func(v *memory) { v.step(-time.Second) }, "its clock has jumped by -1s", Quarantined},
		{"a client adopts it", func(v *memory) { v.set(v.run + " " + strconv.FormatInt(time.Now().UnixMicro(), 10) + " 0 adopted") }, "it may have forgotten", Up},
		{"another client writes it", func(v *memory) { v.set(v.run + " " + strconv.FormatInt(time.Now().UnixMicro(), 10) + " 0") }, "its memory is known for 0s only", Quarantined},
	} {
		for _, before := range []string{"SET", "PTTL"} {
			t.Run(row.name+" before the "+before, func(t *testing.T) {
				guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
					v := servers[0]
					v.before(on(before, func() { row.happen(v) }))
					a := vote(t, masters[0])
					if (a.Value > 0) != (row.want == "") || a.Err != nil && (row.want == "" || !strings.Contains(a.Err.Error(), row.want)) {
						t.Errorf("the vote: %+v, want it not to count: %q", a, row.want)
					}
					if row.want == "another server answers" { // it is dialled again
						row.state = Quarantined
					}
					wantState(t, masters[0], row.state, "")
					if row.state == Quarantined {
						time.Sleep(time.Minute)
					}
					if a := vote(t, masters[0]); a.Value <= 0 {
						t.Errorf("the vote afterwards: %+v, want it to count", a)
					}
				})
			})
		}
	}
}

// A grant is told with the probe's replies and not before; a refusal, and the
// answer to a release, at once.
func TestAGrantIsHeldBackUntilItIsConfirmed(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		thaw := make(chan struct{})
		servers[0].before(func(cmd []string) string {
			switch {
			case cmd[0] == "PTTL":
				<-thaw
			case cmd[0] == "SET" && cmd[1] == "held":
				return "$-1\r\n"
			}
			return ""
		})
		var free, held, released, lost answers
		masters[0].Ask(Set, claimOf("free"), &free)
		masters[0].Ask(Set, claimOf("held"), &held)
		masters[0].Ask(Release, claimOf("other"), &released)
		synctest.Wait()
		if len(free.get()) != 0 || len(held.get()) != 1 || len(released.get()) != 1 {
			t.Errorf("without the probe: granted %v, refused %v, released %v, want the first held back", free.get(), held.get(), released.get())
		}
		thaw <- struct{}{}
		synctest.Wait()
		if got := free.get(); len(got) != 1 || got[0].Value != 1 {
			t.Errorf("with the probe: %v, want a grant", got)
		}
		masters[0].Ask(Set, claimOf("free"), &lost)
		time.Sleep(1500 * time.Millisecond)
		if got := lost.get(); len(got) != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "overdue") {
			t.Errorf("without the probe's reply: %v, want the end of the connection", got)
		}
		close(thaw)
	})
}

func TestAServerThatKeepsScriptsIsAskedForItsRunID(t *testing.T) {
	for _, version := range []string{"6.2.14", "2.8.24", "7.0.0"} {
		guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
			v, m := servers[0], masters[0]
			v.mu.Lock()
			v.version, v.keeps = version, true
			v.mu.Unlock()
			v.before(func(cmd []string) string { // to be connected anew
				if cmd[0] == "SET" && len(v.seen("2: ")) == 0 {
					return hangUp
				}
				return ""
			})
			vote(t, m)
			if a := vote(t, m); a.Value != 1 {
				t.Errorf("%s: the vote: %+v, want it to count", version, a)
			}
			v.before(nil)
			v.restart()
			a := vote(t, m)
			if old := version < "7"; (a.Err != nil) != old {
				t.Errorf("%s: the vote after a restart that kept record and scripts: %+v, want it to be found out: %v", version, a, old)
			}
		})
	}
}

// Another server's clock is another one: that it shows another time is no jump.
func TestAnotherServersClockHasNotJumped(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			if cmd[0] == "PING" {
				v.before(nil)
				v.restart()
				v.step(time.Hour)
				return hangUp
			}
			return ""
		})
		time.Sleep(1500 * time.Millisecond)
		wantState(t, m, Quarantined, "it was restarted")
		record := v.get()
		time.Sleep(5 * time.Second)
		wantState(t, m, Quarantined, "it was restarted")
		if got := v.get(); got != record {
			t.Errorf("the record is %q, want it to be what it was, %q", got, record)
		}
	})
}

// A server that says it is a replica is given up; its record is written anew when it
// is none any more.
func TestAReplicaForAWhileIsFoundOutByWhateverIsAsked(t *testing.T) {
	for _, row := range []struct {
		name string
		ask  []Kind
	}{{"nothing", nil}, {"a lock", []Kind{Set}}, {"a lock, by script", []Kind{Acquire}}, {"a renewal", []Kind{Renew}}, {"releases", []Kind{Release, Release}}} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
				v, m := servers[0], masters[0]
				before := v.get()
				v.become("slave")
				for i, kind := range row.ask {
					m.Ask(kind, claimOf(fmt.Sprint(i)), nil)
				}
				if row.ask == nil {
					time.Sleep(1100 * time.Millisecond) // a heartbeat
				}
				synctest.Wait()
				wantState(t, m, Refused, "it is a replica")
				v.become("master")
				time.Sleep(200 * time.Millisecond)
				wantState(t, m, Quarantined, "it was a replica meanwhile")
				if v.get() == before {
					t.Error("the record is not written anew")
				}
				wantState(t, masters[1], Up, "")
			})
		})
	}
}

// However many probes are odd, one look explains them.
func TestManyFlushesShareALook(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		thaw := make(chan struct{})
		v.before(func(cmd []string) string {
			if cmd[0] == "SET" {
				<-thaw
			}
			return ""
		})
		var votes answers
		for i := range 30 {
			if err := m.Ask(Set, claimOf(fmt.Sprint(i)), &votes); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // each has a flush of its own
		}
		v.flushScripts()
		before := v.looks
		close(thaw)
		synctest.Wait()
		if got := votes.get(); len(got) != 30 || slices.ContainsFunc(got, func(a Answer) bool { return a.Value != 1 }) {
			t.Errorf("the votes: %v, want 30 that count", got)
		}
		if n := v.looks - before; n != 1 {
			t.Errorf("%d looks, want 1", n)
		}
		for range 3 * maxLooks { // nor do they add up
			v.set(fmt.Sprintf("%s %d 0 adopted", v.run, time.Now().UnixMicro()))
			vote(t, m) // finds it
			if a := vote(t, m); a.Value != 1 {
				t.Fatalf("the vote: %+v, want it to count", a)
			}
		}
		if got := v.seen("2: "); len(got) != 0 {
			t.Errorf("the connection was given up: on the next, %q", got)
		}
	})
}

// A server that ends between two questions of a new connection, behind a proxy, has
// not told what the next one is.
func TestAServerThatIsReplacedWhileItIsGreetedIsGreetedAgain(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			switch greeted := len(v.seen("2: INFO memory")) > 0; {
			case cmd[0] == "PING" && !greeted:
				return hangUp
			case cmd[0] == "EVALSHA" && greeted:
				v.before(nil)
				v.restart()
			}
			return ""
		})
		time.Sleep(1500 * time.Millisecond)
		wantState(t, m, Quarantined, "")
		if len(v.seen("3: INFO server")) != 1 {
			t.Error("the connection to the one that was not asked who it is stands")
		}
	})
}

// One that is busy with what needs no vote is looked at all the same.
func TestABusyMasterIsLookedAtOnceASecond(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" {
				time.Sleep(300 * time.Millisecond)
			}
			return ""
		})
		for i := range 40 {
			m.Ask(Release, claimOf(fmt.Sprint(i)), nil)
			time.Sleep(100 * time.Millisecond)
			if i == 15 {
				v.step(time.Minute)
			}
		}
		wantState(t, m, Quarantined, "its clock has jumped")
	})
}

func TestARecordThatKeepsChangingIsRefused(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		var looks atomic.Int64
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
				v.set(fmt.Sprintf("%s %d 0", v.run, time.Now().UnixMicro()-1000+looks.Add(1)))
			}
			return ""
		})
		v.flushScripts()
		if a := vote(t, m); a.Err == nil || !strings.Contains(a.Err.Error(), "keeps changing") {
			t.Errorf("the vote: %+v, want it to say that the record keeps changing", a)
		}
		if n := looks.Load(); n > 250 {
			t.Errorf("%d looks, want about ten for each of twenty connections", n)
		}
		wantState(t, m, Refused, "keeps changing")
		v.before(nil)
		time.Sleep(time.Second)
		wantState(t, m, Quarantined, "")
	})
}

func TestWhatTheServerForbidsIsSaid(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
				return "-NOPERM no keys for you\r\n"
			}
			return ""
		})
		v.flushScripts()
		if a := vote(t, m); a.Err == nil || !strings.Contains(a.Err.Error(), "it cannot keep the record") || !strings.Contains(a.Err.Error(), "NOPERM") {
			t.Errorf("the vote: %+v, want it to say what is forbidden", a)
		}
		wantState(t, m, Refused, "it cannot keep the record")
		v.before(nil)
		time.Sleep(time.Second)
		wantState(t, m, Up, "")
	})
}

// Beside a quarantine that lasts, a look that finds nothing changes nothing, nor one
// that finds a record which is young, but not as young.
func TestAQuarantineLastsThroughLooksAndConnections(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.set(fmt.Sprintf("%s %d 0", v.run, time.Now().UnixMicro())) // by another client
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wantState(t, m, Quarantined, "its memory is known for ")
		for _, o := range servers { // both alike, so no record is written
			o.step(10 * time.Second)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantState(t, m, Quarantined, "its clock has jumped by 10s")
		until := m.Status().Until
		v.flushScripts()
		time.Sleep(5 * time.Second)
		v.before(func(cmd []string) string {
			if cmd[0] == "PING" {
				v.before(nil)
				return hangUp
			}
			return ""
		})
		time.Sleep(5 * time.Second)
		if got := m.Status(); got.State != Quarantined || !got.Until.Equal(until) {
			t.Errorf("the master is %v until %v, want quarantined until %v", got.State, got.Until, until)
		}
		var q *QuarantineError
		if a := vote(t, m); !errors.As(a.Err, &q) || !q.Until.Equal(until) {
			t.Errorf("the vote: %+v, want an error that tells when votes will count", a)
		}
		time.Sleep(time.Until(until))
		synctest.Wait()
		wantState(t, m, Up, "")
	})
}

// The clock may be right again when the server is looked at.
func TestAVoteDoesNotCountThatAProbeHasSeenToBeOff(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v := servers[0]
		v.step(120 * time.Second)
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
				v.before(nil)
				v.step(-120 * time.Second)
			}
			return ""
		})
		if a := vote(t, masters[0]); a.Err == nil {
			t.Errorf("the vote: %+v, want it not to count", a)
		}
	})
}

// Of two addresses of one server the first votes, unless it is refused.
func TestARefusedMasterDoesNotKeepTheServer(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		for i, v := range servers {
			v.mu.Lock()
			v.run = servers[1].run // both addresses lead to one server
			v.mu.Unlock()
			v.before(func(cmd []string) string {
				if i == 0 && cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
					return "-NOPERM no keys for you\r\n"
				} else if cmd[0] == "PING" && len(v.seen("2: ")) == 0 {
					return hangUp // to be connected anew
				}
				return ""
			})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		wantState(t, masters[0], Refused, "it cannot keep the record")
		if s := masters[1].Status(); s.State == Refused {
			t.Errorf("the other is %v: %v, though nobody else votes for its server", s.State, s.Err)
		}
	})
}
