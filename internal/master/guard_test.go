package master

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// A probe with an odd result voids the vote before it and ends the connection. The inspection of the next
// connection finds out whether data was lost.
func TestAVoteCountsOnlyIfTheMemoryIsUnchanged(t *testing.T) {
	const odd = "it may have forgotten locks: its record of restarts, its scripts or its clock"
	record := func(v *memory, more string) string {
		return recordOf(v.run, time.Now(), minute, more)
	}
	for _, row := range []struct {
		name   string
		happen func(v *memory)
		want   string // why the vote does not count
		state  State  // afterwards
		why    string
	}{
		{"nothing", func(*memory) {}, "", Up, ""},
		{"the scripts are flushed", (*memory).flushScripts, "", Up, ""},
		{"the scripts are flushed twice", func(v *memory) {
			v.flushScripts()
			v.before(on("SCRIPT", v.flushScripts))
		}, "", Up, ""},
		{"the scripts are flushed, and again while they are loaded", func(v *memory) {
			v.flushScripts()
			v.before(on("MULTI", v.flushScripts))
		}, "", Up, ""},
		{"the scripts are flushed, and the record is lost", func(v *memory) {
			v.flushScripts()
			v.set("")
		}, odd, Quarantined, "it has no memory"},
		{"the scripts are flushed, and the record's expiry is set", func(v *memory) {
			v.flushScripts()
			v.expire()
		}, "", Up, ""}, // the inspection sets it to what it was
		{"the scripts are flushed, and the clock steps", func(v *memory) {
			v.flushScripts()
			v.step(2 * time.Minute)
		}, odd, Quarantined, "its clock has jumped"},
		{"the scripts are flushed, and another client writes the record", func(v *memory) {
			v.flushScripts()
			v.set(record(v, ""))
		}, odd, Quarantined, "its memory is known for 0s only"},
		{"the scripts are flushed, and keys were evicted", func(v *memory) {
			v.flushScripts()
			v.set(recordOf(v.run, time.Now().Add(-24*time.Hour), minute, " 7"))
		}, odd, Quarantined, "it has evicted keys"},
		{"the record's expiry is set", (*memory).expire, odd, Quarantined, "its clock has jumped"}, // as the client sees it
		{"the record is lost", func(v *memory) { v.set("") }, odd, Quarantined, "it has no memory"},
		{"the server restarts", (*memory).restart, odd, Quarantined, "it was restarted"},
		{"the clock steps", func(v *memory) { v.step(2 * time.Minute) }, odd, Quarantined, "its clock has jumped"},
		{"the clock steps back", func(v *memory) { v.step(-time.Second) }, odd, Quarantined, "its clock has jumped"},
		{"a client adopts it", func(v *memory) { v.set(record(v, " adopted")) }, odd, Up, ""},
		{"a client adopts this one alone", func(v *memory) { v.set(record(v, " adopted 1")) }, odd, Up, ""},
		{"a client adopts it with two others", func(v *memory) { v.set(record(v, " adopted 3")) }, odd, Quarantined, "it was adopted 0s ago for a list of 3, and this client has a list of 1"},
		{"another client writes it", func(v *memory) { v.set(record(v, "")) }, odd, Quarantined, "its memory is known for 0s only"},
	} {
		for _, before := range []string{"SET", "PROBE"} {
			t.Run(row.name+" before the "+before, func(t *testing.T) {
				guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
					v := servers[0]
					v.before(on(before, func() { row.happen(v) }))
					a := vote(t, masters[0])
					if a.Done() != (row.want == "") || a.Err != nil && (row.want == "" || !strings.Contains(a.Err.Error(), row.want)) {
						t.Errorf("the vote: %+v, want it not to count: %q", a, row.want)
					}
					wantState(t, masters[0], row.state, row.why)
					if got := len(v.Seen("2: ")) > 0; got != (row.want != "") {
						t.Errorf("there is another connection: %v, want %v", got, !got)
					}
					if row.state == Quarantined {
						time.Sleep(time.Minute)
					}
					if a := vote(t, masters[0]); !a.Done() {
						t.Errorf("the vote afterwards: %+v, want it to count", a)
					}
				})
			})
		}
	}
}

// A loss of memory voids every kind of grant. Answers that do not count as votes are passed on unchanged.
func TestVotesOfEveryKindAreVoidAfterALossOfMemory(t *testing.T) {
	for kind := wire.Set; kind <= wire.Ping; kind++ {
		for _, lost := range []bool{true, false} {
			guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
				v := servers[0]
				if lost {
					v.set("")
				}
				var got answers
				claim, request := claimOf("a"), wire.Request(kind)
				if kind == wire.Commit {
					request = claim.Committing(1)
				}
				if err := masters[0].Ask(request, claim, &got); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				votes := kind != wire.Heal && !kind.Releases()
				if all := got.get(); len(all) != 1 || (all[0].Err != nil) != (lost && votes) {
					t.Errorf("%v, the memory lost: %v: answered %+v", kind, lost, all)
				}
			})
		}
	}
}

// A registration that is likely to be refused has no probe. If it is granted, the vote counts when a later probe has found the memory
// unchanged.
func TestAVoteWithoutAProbeWaitsForALaterOne(t *testing.T) {
	for _, row := range []struct {
		name          string
		behind, lost  bool
		reply         string // to the registration; "": it is granted
		counts        bool
		probes, pings int
	}{
		{"with a probe", false, false, "", true, 1, 0},
		{"without", true, false, "", true, 1, 1},
		{"without, and the memory is lost", true, true, "", false, 1, 1},
		{"without, and it is refused", true, false, "*5\r\n:-1\r\n:0\r\n$1\r\nx\r\n:1\r\n:5\r\n", false, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
				v := servers[0]
				var mu sync.Mutex
				sent := make(map[string]int)
				v.before(func(cmd []string) string {
					mu.Lock()
					sent[cmd[0]]++
					mu.Unlock()
					if cmd[0] != "EVALSHA" || len(cmd) < 6 || !strings.HasPrefix(cmd[5], "register ") {
						return ""
					}
					if row.lost {
						v.set("")
					}
					return row.reply
				})
				var got answers
				claim := claimWith("a", wire.ClaimOf{Grant: 400 * time.Millisecond, RegisterTTL: time.Second, Contended: row.behind})
				if err := masters[0].Ask(wire.Register, claim, &got); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if all := got.get(); len(all) != 1 || all[0].Done() != row.counts {
					t.Errorf("answered %+v, want a vote that counts: %t", all, row.counts)
				}
				mu.Lock()
				defer mu.Unlock()
				if sent["PROBE"] != row.probes || sent["PING"] != row.pings {
					t.Errorf("%d probes and %d pings were sent, want %d and %d", sent["PROBE"], sent["PING"], row.probes, row.pings)
				}
			})
		})
	}
}

// A calm client has no heartbeats. When it becomes near, it looks at once whether keys may be evicted, unless it has a moment ago.
func TestAClientThatBecomesNearLooksAtTheMemory(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var infos atomic.Int64
		v := newMemory(0)
		v.before(func(cmd []string) string {
			switch {
			case cmd[0] == "INFO" && cmd[1] == "memory":
				infos.Add(1)
			case cmd[0] == "SUBSCRIBE":
				return "*3\r\n" + fakeserver.Bulk("subscribe") + fakeserver.Bulk(cmd[1]) + ":1\r\n"
			case cmd[0] == "UNSUBSCRIBE":
				return hangUp
			case cmd[0] == "PING" && len(cmd) == 2:
				return "*2\r\n" + fakeserver.Bulk("pong") + fakeserver.Bulk(cmd[1])
			}
			return ""
		})
		m := Start(Config{
			Pool: v.Pool(), ID: "me", Servers: alone(minute), NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second, calm: func() bool { return true }},
		})
		for _, row := range []struct {
			ago  time.Duration
			want int64
		}{{time.Second / 2, 0}, {5 * time.Second, 1}, {time.Second / 2, 0}, {2 * time.Second, 0}, {3 * time.Second, 1}} {
			time.Sleep(row.ago)
			infos.Store(0)
			m.PingOften()
			time.Sleep(time.Millisecond)
			if n := infos.Load(); n != row.want {
				t.Errorf("it looked %d times after nothing for %v, want %d", n, row.ago, row.want)
			}
		}
		m.Close()
		<-m.Done()
	})
}

// Slow requests and replies are not a jump of the clock.
func TestASlowAnswerIsNoJump(t *testing.T) {
	const late = 150 * time.Millisecond // six times that is less than DialTimeout
	for _, slow := range []string{"PROBE", "SCRIPT", "EXEC", "SET"} {
		for _, there := range []bool{true, false} {
			guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
				v := servers[0]
				if there {
					slowAt(v, slow, late)
				} else {
					v.delay(slow, late)
				}
				v.doubt() // so that the server is inspected, too
				vote(t, masters[0])
				for range 5 {
					if a := vote(t, masters[0]); !a.Done() {
						t.Fatalf("%s takes %v, on the way there: %v: the vote: %+v, want it to count", slow, late, there, a)
					}
				}
			})
		}
	}
}

// A grant is passed on after the reply to the probe. A refusal and the answer to a release are passed on at once.
func TestAGrantIsHeldBackUntilItIsConfirmed(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		thaw := make(chan struct{})
		servers[0].before(func(cmd []string) string {
			switch {
			case cmd[0] == "PROBE":
				<-thaw
			case cmd[0] == "SET" && cmd[1] == "held":
				return "$-1\r\n"
			}
			return ""
		})
		var free, held, released, lost answers
		masters[0].Ask(wire.Set, claimOf("free"), &free)
		masters[0].Ask(wire.Set, claimOf("held"), &held)
		masters[0].Ask(wire.Release, claimOf("other"), &released)
		synctest.Wait()
		if len(free.get()) != 0 || len(held.get()) != 1 || len(released.get()) != 1 {
			t.Errorf("without the probe: granted %v, refused %v, released %v, want the first held back", free.get(), held.get(), released.get())
		}
		thaw <- struct{}{}
		synctest.Wait()
		if got := free.get(); len(got) != 1 || !got[0].Done() {
			t.Errorf("with the probe: %v, want a grant", got)
		}
		masters[0].Ask(wire.Set, claimOf("free"), &lost)
		time.Sleep(1500 * time.Millisecond)
		if got := lost.get(); len(got) != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "overdue") {
			t.Errorf("without the probe's reply: %v, want the end of the connection", got)
		}
		close(thaw)
	})
}

// However many votes wait for probes, one connection ends and one inspection follows.
func TestAnOddProbeVoidsEveryVoteUnderWay(t *testing.T) {
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
			if err := m.Ask(wire.Set, claimOf(fmt.Sprint(i)), &votes); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // each vote has a flush of its own
		}
		v.doubt()
		v.mu.Lock()
		before := v.looks
		v.mu.Unlock()
		close(thaw)
		time.Sleep(2 * time.Second)
		if got := votes.get(); len(got) != 30 || slices.ContainsFunc(got, func(a wire.Answer) bool { return a.Err != guard.ErrChanged }) {
			t.Errorf("the votes: %v, want 30 that do not count", got)
		}
		v.mu.Lock()
		if n := v.looks - before; n != 1 {
			t.Errorf("%d inspections, want 1", n)
		}
		v.mu.Unlock()
		if a := vote(t, m); !a.Done() {
			t.Errorf("the vote afterwards: %+v, want it to count", a)
		}
	})
}

// SCRIPT FLUSH takes the probe's script away, not the memory. However many votes wait for probes, one inspection follows on the same connection.
func TestVotesUnderWayCountAfterTheScriptsWereFlushed(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		thaw := make(chan struct{})
		v.before(func(cmd []string) string {
			if cmd[0] == "SET" {
				<-thaw
				time.Sleep(time.Millisecond) // so that the inspection is sent while probes are under way
			}
			return ""
		})
		var votes answers
		for i := range 30 {
			if err := m.Ask(wire.Set, claimOf(fmt.Sprint(i)), &votes); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // each vote has a flush of its own
		}
		for round := range 3 {
			v.flushScripts()
			v.mu.Lock()
			before := v.looks
			v.mu.Unlock()
			if round == 0 {
				close(thaw)
				time.Sleep(200 * time.Millisecond)
				if got := votes.get(); len(got) != 30 || slices.ContainsFunc(got, func(a wire.Answer) bool { return !a.Done() }) {
					t.Errorf("the votes: %v, want 30 that count", got)
				}
			} else if a := vote(t, m); !a.Done() {
				t.Errorf("a vote after scripts were flushed again: %+v, want it to count", a)
			}
			v.mu.Lock()
			if n := v.looks - before; n != 1 {
				t.Errorf("%d inspections, want 1", n)
			}
			v.mu.Unlock()
		}
		if again := v.Seen("2: "); len(again) > 0 {
			t.Errorf("there is another connection, on which %q", again[0])
		}
	})
}

// The MaxTTL of a record that is lost with the scripts stays known to clients that connect before this one again.
func TestARecordThatIsReplacedAfterTheScriptsWereFlushedKeepsItsMaxTTL(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v := servers[0]
		v.flushScripts()
		v.set("")
		var between []time.Duration
		v.before(on("GETRANGE", func() { // of the next connection
			r, _ := incarnation.Parse(v.get())
			between = append(between, r.MaxTTL)
		}))
		vote(t, masters[0])
		if len(between) != 1 || between[0] != minute {
			t.Errorf("the record has the MaxTTL %v before the next inspection, want %v", between, minute)
		}
	})
}

// inspectionsLoaded returns how often the script of inspections was loaded.
func inspectionsLoaded(v *memory) (n int) {
	for _, command := range v.Seen("SCRIPT LOAD") {
		if strings.Contains(command, incarnation.Script()[:100]) {
			n++
		}
	}
	return n
}

func TestAServerThatHasTheScriptOfInspectionsIsNotSentIt(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.doubt()
		vote(t, m) // it ends the connection
		if a := vote(t, m); !a.Done() || v.Connections() < 2 {
			t.Fatalf("the vote: %+v on %d connections, want it to count on another one", a, v.Connections())
		}
		if n := inspectionsLoaded(v); n != 1 {
			t.Errorf("the script was loaded %d times, want once", n)
		}
	})
}

// connectAnother connects another client with a smaller MaxTTL to a server. It returns what it then knows of the server, how many
// inspections that took, and with which MaxTTL it reckons.
func connectAnother(t *testing.T, v *memory) (s Status, looks int, maxTTL time.Duration) {
	t.Helper()
	inspections := func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.looks
	}
	before := inspections()
	all := guard.NewServers(guard.Settings{Names: []string{"0"}, MaxTTL: minute / 2, Clock: clock.System})
	m := Start(Config{
		Pool:        v.Pool(),
		Servers:     all,
		NodeTimeout: 50 * time.Millisecond,
		DialTimeout: time.Second,
		Listener:    client{every: 100 * time.Millisecond},
	})
	synctest.Wait()
	s, looks = m.Status(), inspections()-before
	m.Close()
	<-m.Done()
	return s, looks, all.MaxTTL()
}

func TestAClientInspectsOnceIfTheRecordIsThatOfTheServersProcess(t *testing.T) {
	guarded(t, 1, func(t *testing.T, _ []*Master, servers []*memory) {
		if s, looks, maxTTL := connectAnother(t, servers[0]); looks != 1 || s.State != Up || maxTTL != minute {
			t.Errorf("%d inspections, then %v with a MaxTTL of %v, want 1, %v and %v", looks, s.State, maxTTL, Up, minute)
		}
	})
}

// It loads the scripts that it lacks, such as the texts for its process, ahead of the second inspection.
func TestAClientInspectsTwiceIfTheServerLacksScripts(t *testing.T) {
	guarded(t, 1, func(t *testing.T, _ []*Master, servers []*memory) {
		servers[0].flushScripts()
		if s, looks, _ := connectAnother(t, servers[0]); looks != 2 || s.State != Up {
			t.Errorf("%d inspections, then %v, want 2 and %v", looks, s.State, Up)
		}
	})
}

// The script of a record is a proof for other clients that the server's process is the one that wrote the record.
func TestTheScriptOfAnotherProcesssRecordIsNotLoaded(t *testing.T) {
	guarded(t, 1, func(t *testing.T, _ []*Master, servers []*memory) {
		v, other := servers[0], strings.Repeat("e", 40)
		v.set(strings.Replace(v.get(), v.run, other, 1))
		if s, looks, _ := connectAnother(t, v); looks != 2 || s.State != Quarantined {
			t.Errorf("%d inspections, then %v, want 2 and %v", looks, s.State, Quarantined)
		}
		if loaded := v.Seen("--" + other); loaded != nil {
			t.Errorf("it was sent %q", loaded)
		}
	})
}

func TestAnInspectionThatFindsItsScriptGoneLoadsItOnTheSameConnection(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(on("MULTI", v.flushScripts)) // of the next connection
		v.doubt()
		vote(t, m) // it ends the connection
		if a := vote(t, m); !a.Done() {
			t.Errorf("the vote: %+v, want it to count", a)
		}
		if n, conns := inspectionsLoaded(v), v.Connections(); n != 2 || conns != 2 {
			t.Errorf("the script was loaded %d times on %d connections, want twice on 2", n, conns)
		}
	})
}

// Without a run_id, a server without the probe's script may be another process.
func TestAServerThatHidesItsRunIDIsDoubtedWithoutItsScripts(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.hide()
		v.doubt()
		vote(t, m) // it ends the connection
		if a := vote(t, m); !a.Done() {
			t.Fatalf("the vote: %+v, want it to count", a)
		}
		v.flushScripts()
		if a := vote(t, m); a.Err != guard.ErrChanged {
			t.Errorf("the vote: %+v, want it not to count", a)
		}
	})
}

// All clients of a server find the odd result at the same time. They must not all dial at once.
func TestClientsDialAtDifferentTimesAfterAnOddProbe(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v := servers[0]
		for range 20 {
			m := Start(masters[0].cfg)
			defer func() {
				m.Close()
				<-m.Done()
			}()
		}
		time.Sleep(500 * time.Millisecond)
		dialled := make(map[time.Time]bool)
		v.before(func(cmd []string) string {
			if cmd[0] == "MULTI" {
				v.mu.Lock()
				dialled[time.Now()] = true
				v.mu.Unlock()
			}
			return ""
		})
		v.doubt()
		time.Sleep(3 * time.Second)
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(dialled) < 15 {
			t.Errorf("21 clients dial at %d different moments, want nearly as many", len(dialled))
		}
	})
}

// A master that only receives commands without votes is probed as well.
func TestABusyMasterIsProbedOnceASecond(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" {
				time.Sleep(300 * time.Millisecond)
			}
			return ""
		})
		for i := range 100 { // it is busy until it has been found out, and has connected again
			m.Ask(wire.Release, claimOf(fmt.Sprint(i)), nil)
			time.Sleep(100 * time.Millisecond)
			if i == 15 {
				v.step(time.Minute)
			} else if m.Status().State == Quarantined {
				break
			}
		}
		wantState(t, m, Quarantined, "its clock has jumped")
	})
}

// During a quarantine, an inspection that finds nothing new changes nothing. Neither does one that finds a young
// record, if it is older than the quarantine.
func TestAQuarantineOutlastsInspectionsAndConnections(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.set(recordOf(v.run, time.Now(), minute, "")) // by another client
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wantState(t, m, Quarantined, "its memory is known for ")
		for _, o := range servers { // both step alike, so no record is written
			o.step(10 * time.Second)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantState(t, m, Quarantined, "its clock has jumped by ")
		until := m.Status().Until
		v.doubt()
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
		var q *guard.QuarantineError
		if a := vote(t, m); !errors.As(a.Err, &q) || !q.Until.Equal(until) {
			t.Errorf("the vote: %+v, want an error that tells when votes will count", a)
		}
		time.Sleep(time.Until(until))
		synctest.Wait()
		wantState(t, m, Up, "")
	})
}

// The clock may be right again when the server is inspected.
func TestAVoteDoesNotCountIfItsProbeFindsAJump(t *testing.T) {
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

// A vote counts only if the quarantine is over for the record that its probe finds: a MaxTTL may have
// been raised since the last probe.
func TestAMaxTTLThatIsRaisedAtTheEndOfAQuarantineProlongsIt(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration // the end
		state State
	}{{"just before", -100 * time.Millisecond, Quarantined}, {"just after, before the next probe", 50 * time.Millisecond, Quarantined}, {"after the next probe", 2 * time.Second, Up}} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
				v, m := servers[0], masters[0]
				since := time.Now()
				v.set(recordOf(v.run, since, minute, ""))
				time.Sleep(time.Until(since.Add(time.Minute - 200*time.Millisecond)))
				wantState(t, m, Quarantined, "")
				time.Sleep(time.Until(since.Add(time.Minute + row.after)))
				v.set(recordOf(v.run, since, time.Hour, ""))
				time.Sleep(time.Until(since.Add(time.Minute + row.after + 5*time.Second)))
				wantState(t, m, row.state, "")
			})
		})
	}
}
