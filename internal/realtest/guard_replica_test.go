package realtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A master that becomes a replica, and then a master again with the data of another server, is the same process
// with the same record.
func TestAMasterThatWasAReplicaMeanwhileIsQuarantined(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		kill bool // it ends the clients' connections, as Sentinel does
		late bool // client 2 connects while it is a replica
	}{{name: "connections are killed", kill: true}, {name: "connections stand"}, {name: "a client that came meanwhile", kill: true, late: true}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := redisserver.AdoptedTB(t, 1)[0]
			r := redisserver.StartTB(t, 1)[0]
			for _, s := range []*redisserver.Server{m, r} {
				do(t, s, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
			}
			follow := func(s, master *redisserver.Server) {
				host, port, _ := strings.Cut(master.Addr(), ":")
				do(t, s, "REPLICAOF", host, port)
			}
			follow(r, m)
			eventually(t, "the replica has the record", func() bool { return record(t, r) == record(t, m) })
			first := openReal(t, []*redisserver.Server{m}, patient())
			var second *redlock.Client
			if !row.late {
				second = openReal(t, []*redisserver.Server{m}, patient())
			}
			do(t, r, "REPLICAOF", "NO", "ONE")
			l := first.Locker("a")
			l.Lock() // the replica does not receive it
			follow(m, r)
			lease := l.Lease()
			if row.late {
				second = open(t, patient(), m.Addr())
				first.Close() // so that its earlier inspections cannot help
			}
			if row.kill {
				do(t, m, "CLIENT", "KILL", "TYPE", "normal")
				eventually(t, "it is refused as a replica", func() bool { return locktest.States(second, redlock.MasterRefused) == 1 })
			} else if err := second.Locker("b").TryLockContext(t.Context()); err == nil ||
				!strings.Contains(err.Error(), "READONLY") && !strings.Contains(err.Error(), "it is a replica") { // a heartbeat may have found it out first
				t.Errorf("TryLockContext = %v, want that the master is a replica", err)
			}
			eventually(t, "it has the other's memory", func() bool {
				n, err := redis.Int(m.Do("EXISTS", "a"))
				return err == nil && n == 0
			})
			do(t, m, "REPLICAOF", "NO", "ONE")
			eventually(t, "client 2 has the lock, or knows better", func() bool {
				if second.Locker("a").TryLock() {
					t.Fatalf("two holders; the lease of client 1 lasts until %v", lease.Until())
				}
				return locktest.States(second, redlock.MasterQuarantined) == 1
			})
		})
	}
}

// The data that comes back is old. Its record is valid, but it lacks the locks that were acquired in between.
func TestAnOldMemoryThatComesBackIsQuarantined(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	opts := func() *redlock.Options {
		return &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}, MaxTTL: time.Second}
	}
	first, second := openReal(t, servers, opts()), openReal(t, servers, opts())
	swap := func() {
		for _, s := range servers {
			do(t, s, "SWAPDB", 0, 1)
		}
	}
	swap()
	for _, c := range []*redlock.Client{first, second} {
		eventually(t, "the other memory is quarantined", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 3 })
	}
	for _, c := range []*redlock.Client{first, second} {
		eventually(t, "it votes", func() bool { return locktest.States(c, redlock.MasterUp) == 3 })
	}
	l := first.Locker("a")
	l.Lock()
	swap()
	for s := l.Lease(); s.Valid(); time.Sleep(10 * time.Millisecond) {
		if second.Locker("a").TryLock() && s.Valid() {
			t.Fatal("two holders")
		}
	}
}
