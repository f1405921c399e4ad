package master

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// Whatever is counted is void if the memory was lost; what is not is told as it is.
func TestEveryKindOfVoteIsHeldToTheMemory(t *testing.T) {
	for kind := Set; kind <= Glance; kind++ {
		for _, lost := range []bool{true, false} {
			guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
				v := servers[0]
				if lost {
					v.set("")
				}
				var got answers
				claim := claimOf("a")
				if kind == Commit {
					claim.Propose(1)
				}
				if err := masters[0].Ask(kind, claim, &got); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				votes := kind != Heal && kind != Wake && !kind.releases()
				if all := got.get(); len(all) != 1 || (all[0].Err != nil) != (lost && votes) {
					t.Errorf("%v, the memory lost: %v: answered %+v", kind, lost, all)
				}
			})
		}
	}
}

// Questions and answers that take their time are no jump.
func TestASlowAnswerIsNoJump(t *testing.T) {
	for _, slow := range []string{"PTTL", "SCRIPT", "EXEC", "SET"} {
		for _, there := range []bool{true, false} {
			guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
				v := servers[0]
				if there {
					slowAt(v, slow, 300*time.Millisecond)
				} else {
					v.delay(slow, 300*time.Millisecond)
				}
				v.flushScripts() // so that it is looked at, too
				for range 5 {
					if a := vote(t, masters[0]); a.Value != 1 {
						t.Fatalf("%s takes 300ms, on the way there: %v: the vote: %+v, want it to count", slow, there, a)
					}
				}
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
		for i := range 70 {
			m.Ask(Release, claimOf(fmt.Sprint(i)), nil)
			time.Sleep(100 * time.Millisecond)
			if i == 15 {
				v.step(time.Minute)
			}
		}
		wantState(t, m, Quarantined, "its clock has jumped")
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
