package master

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestAServerThatKeepsScriptsIsAskedForItsRunID(t *testing.T) {
	for _, version := range []string{"6.2.14", "2.8.24", "7.0.0"} {
		guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
			v, m := servers[0], masters[0]
			v.mu.Lock()
			v.version, v.keeps = version, true
			v.mu.Unlock()
			v.before(func(cmd []string) string { // so that the client reconnects
				if cmd[0] == "SET" && len(v.Seen("2: ")) == 0 {
					return hangUp
				}
				return ""
			})
			vote(t, m)
			if a := vote(t, m); a.Outcome != wire.Granted {
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

// The clock of another server may show another time. That is not a jump.
func TestADifferentClockOfAnotherServerIsNoJump(t *testing.T) {
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

// A connection to a server that says that it is a replica is ended. Once the server is a master again, it gets a
// new record.
func TestAReplicaIsDetectedByAnyCommand(t *testing.T) {
	for _, row := range []struct {
		name string
		ask  []wire.Kind
	}{{"nothing", nil}, {"a lock", []wire.Kind{wire.Set}}, {"a lock, by script", []wire.Kind{wire.Again}}, {"a renewal", []wire.Kind{wire.Renew}}, {"releases", []wire.Kind{wire.Release, wire.Release}}} {
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

// The record of another memory may be the known one as it was earlier, from before its MaxTTL was raised.
func TestAReplicaThatComesBackWithAnEarlierRecordIsQuarantined(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v := servers[0]
		known, _ := incarnation.Parse(v.get())
		v.become("slave")
		time.Sleep(1100 * time.Millisecond)
		wantState(t, masters[0], Refused, "it is a replica")
		v.set(recordOf(known.Run, known.Since, time.Second, ""))
		v.become("master")
		time.Sleep(200 * time.Millisecond)
		wantState(t, masters[0], Quarantined, "it was a replica meanwhile")
		if r, ok := incarnation.Parse(v.get()); !ok || r.SameMemory(known) {
			t.Errorf("the record is %q, want another one", v.get())
		}
	})
}

// Behind a proxy, a server may be replaced between two commands of a new connection. What the first server has
// said about itself does not hold for the second.
func TestAServerThatIsReplacedWhileConnectingIsDialledAgain(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			switch greeted := len(v.Seen("2: INFO memory")) > 0; {
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
		if len(v.Seen("3: INFO server")) != 1 {
			t.Error("the connection to the one that was not asked who it is stands")
		}
	})
}

func TestARecordThatKeepsChangingIsRefused(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		var looks atomic.Int64
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
				v.set(recordOf(v.run, time.Now().Add(time.Duration(looks.Add(1)-1000)*time.Microsecond), minute, ""))
			}
			return ""
		})
		v.doubt()
		vote(t, m) // it ends the connection
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

func TestARefusalNamesTheForbiddenCommand(t *testing.T) {
	guarded(t, 1, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		v.before(func(cmd []string) string {
			if cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
				return "-NOPERM no keys for you\r\n"
			}
			return ""
		})
		v.doubt()
		vote(t, m) // it ends the connection
		if a := vote(t, m); a.Err == nil || !strings.Contains(a.Err.Error(), "it cannot keep the record") || !strings.Contains(a.Err.Error(), "NOPERM") {
			t.Errorf("the vote: %+v, want it to say what is forbidden", a)
		}
		wantState(t, m, Refused, "it cannot keep the record")
		v.before(nil)
		time.Sleep(time.Second)
		wantState(t, m, Up, "")
	})
}

// A master that is refused does not keep another address of the same server from voting.
func TestARefusedMasterLeavesTheVoteToAnotherAddressOfItsServer(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		for i, v := range servers {
			v.mu.Lock()
			v.run = servers[1].run // both addresses lead to one server
			v.mu.Unlock()
			v.before(func(cmd []string) string {
				if i == 0 && cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key {
					return "-NOPERM no keys for you\r\n"
				} else if cmd[0] == "PING" && len(v.Seen("2: ")) == 0 {
					return hangUp // so that the client reconnects
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

// After a clock was set back, the new record of one client is older than the times that other clients have seen.
// They must not write a further record for that reason.
func TestOneNewRecordIsWrittenAfterTheClockWasSetBack(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		var more []*Master
		for range 30 {
			all := guard.NewServers(guard.Settings{Names: []string{"0", "1"}, MaxTTL: minute})
			for i, v := range servers {
				time.Sleep(7 * time.Millisecond)
				more = append(more, Start(Config{
					Pool: v.Pool(), Index: i, Servers: all,
					NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
					Listener: client{every: 100 * time.Millisecond},
				}))
			}
		}
		defer func() {
			for _, m := range more {
				m.Close()
				<-m.Done()
			}
		}()
		time.Sleep(3 * time.Second)
		v := servers[0]
		last, records := v.get(), 0
		v.step(-2 * time.Minute)
		for range 5000 {
			time.Sleep(time.Millisecond)
			if got := v.get(); got != last {
				last = got
				records++
			}
		}
		if records > 2 {
			t.Errorf("31 clients write %d records, want one or two", records)
		}
	})
}
