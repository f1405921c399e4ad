package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// policies are the eviction policies of Redis.
var policies = []string{"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"}

// evictLimit is the servers' maxmemory. An empty server uses about 1 MB, and each connection some 20 KB.
const evictLimit = 8 << 20

// A filler is another program, which fills the memory of a server with keys that expire late.
type filler struct {
	conn redis.Conn
	next int
}

// fill sets n keys of 4 KiB. It ignores refusals for lack of memory.
func (f *filler) fill(tb testing.TB, n int) {
	tb.Helper()
	value := strings.Repeat("x", 4096)
	for range n {
		f.conn.Send("SET", fmt.Sprint("other:", f.next), value, "EX", 3600)
		f.next++
	}
	if err := f.conn.Flush(); err != nil {
		tb.Fatal(err)
	}
	for range n {
		if _, err := f.conn.Receive(); err != nil && f.conn.Err() != nil {
			tb.Fatal(err)
		}
	}
}

// fillers returns a filler of each server, which has filled a share of the memory.
func fillers(tb testing.TB, servers []*redisserver.Server, share float64) (all []*filler) {
	tb.Helper()
	for _, s := range servers {
		conn, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { conn.Close() })
		f := &filler{conn: conn}
		for float64(infoNumber(tb, s, "memory", "used_memory:")) < share*evictLimit {
			f.fill(tb, 20)
		}
		all = append(all, f)
	}
	return all
}

// The policy is changed under connected clients, and another program fills the memory. One client holds locks, which
// may be evicted, and the other one tries to acquire them.
func TestAnEvictedLockIsNotAcquiredASecondTime(t *testing.T) {
	t.Parallel()
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 3, "--maxmemory", fmt.Sprint(evictLimit))
			fill := fillers(t, servers, 0.85)
			opts := locktest.Lasting(time.Minute)
			opts.NodeTimeout = nodeTimeout
			holder, other := openReal(t, servers, opts), openReal(t, servers, opts)
			var held, wanted []*redlock.Locker
			for i := range 100 {
				name := fmt.Sprint("lock", i)
				held, wanted = append(held, holder.Locker(name)), append(wanted, other.Locker(name))
				if err := held[i].LockContext(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range servers {
				do(t, s, "CONFIG", "SET", "maxmemory-policy", policy)
			}
			both := 0
			for range 20 {
				for _, f := range fill {
					f.fill(t, 100)
				}
				for i, l := range wanted {
					if l.TryLock() && held[i].Lease().Valid() {
						both++
					}
				}
			}
			evicted := 0
			for _, s := range servers {
				evicted += infoNumber(t, s, "stats", "evicted_keys:")
			}
			if both > 0 {
				t.Errorf("%d of 100 locks have two holders, after %d evictions", both, evicted)
			}
			if (evicted > 1000) != (policy != "noeviction") {
				t.Errorf("%d keys were evicted", evicted)
			}
			if policy == "noeviction" {
				return
			}
			eventually(t, "the masters are refused", func() bool { return locktest.States(other, redlock.MasterRefused) == 3 })
			for _, s := range servers {
				do(t, s, "CONFIG", "SET", "maxmemory", "100mb")
				do(t, s, "CONFIG", "SET", "maxmemory-policy", "noeviction")
			}
			eventually(t, "they are in quarantine", func() bool { return locktest.States(other, redlock.MasterQuarantined) == 3 })
			// A client that connects now sees it in the records.
			late := open(t, opts, addresses(servers)...)
			eventually(t, "a new client does not count their votes", func() bool { return locktest.States(late, redlock.MasterQuarantined) == 3 })
		})
	}
}

func TestLocksAreRenewedAndReleasedWhileTheMemoryOfAllMastersIsFull(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	opts := busy()
	opts.LockOptions.RenewEvery = 50 * time.Millisecond
	early := openReal(t, servers, opts)
	held := early.Locker("held")
	held.Lock()
	for _, s := range servers { // they use more, whatever their connections need
		do(t, s, "CONFIG", "SET", "maxmemory", "500kb")
	}
	late := open(t, busy(), addresses(servers)...)
	for name, c := range map[string]*redlock.Client{"a connected client": early, "a new client": late} { // the latter cannot inspect such a master
		eventually(t, name+" says that the memory is full", func() bool { return locktest.States(c, redlock.MasterUnwritable) == 3 })
		if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "its memory is full") {
			t.Errorf("%s: Ping = %v, want it to say that the memory is full", name, err)
		}
		if err := c.Locker("a").TryLockContext(t.Context()); err == nil || !strings.Contains(err.Error(), "memory") {
			t.Errorf("%s: TryLockContext = %v, want it to say that the memory is full", name, err)
		}
	}
	until := held.Lease().Until()
	eventually(t, "a held lock is renewed", func() bool { return held.Lease().Until().After(until) })
	if err := held.UnlockContext(t.Context()); err != nil {
		t.Errorf("UnlockContext = %v, want nil", err)
	}
	for _, s := range servers {
		do(t, s, "CONFIG", "SET", "maxmemory", "100mb")
	}
	for name, c := range map[string]*redlock.Client{"the connected client": early, "the new client": late} {
		eventually(t, name+" can acquire locks again, and all masters are up", func() bool {
			return c.Ping(t.Context()) == nil && locktest.States(c, redlock.MasterUp) == 3
		})
	}
}

// A server whose memory is full refuses commands that may need memory, also in scripts.
func TestLeasesOfEveryKindAreRenewedAndReleasedWhileTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	opts := busy()
	opts.LockOptions.RenewEvery = 50 * time.Millisecond
	c := openReal(t, servers, opts)
	keep, fencing := opts.LockOptions, opts.LockOptions
	keep.Keep, fencing.Fencing = time.Minute, true
	kept, err1 := c.NewLocker("kept", &keep)
	fenced, err2 := c.NewLocker("fenced", &fencing)
	permit, err3 := c.Semaphore("permits", 3).AcquireN(t.Context(), 2)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	rw := c.RWLocker("read")
	leases, release := map[string]*redlock.Lease{"a permit": permit.Lease}, map[string]func(context.Context) error{"a permit": permit.ReleaseContext}
	for kind, l := range map[string]*redlock.Locker{"a lock": c.Locker("a"), "a kept lock": kept, "a lock with a fence": fenced,
		"two names": c.Locker("b", "c"), "a writer": c.RWLocker("write").Locker(), "a reader": rw.RLocker()} {
		l.Lock()
		leases[kind], release[kind] = l.Lease(), l.UnlockContext
	}
	for _, s := range servers { // they use more, whatever their connections need
		do(t, s, "CONFIG", "SET", "maxmemory", "500kb")
	}
	eventually(t, "the memory is full", func() bool { return c.Ping(t.Context()) != nil })
	for kind, lease := range leases {
		for range 2 { // the first renewal may have been under way
			until := lease.Until()
			eventually(t, kind+" is renewed", func() bool { return lease.Until().After(until) || !lease.Valid() })
		}
		if err := lease.Err(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for kind, unlock := range release {
		if err := unlock(t.Context()); err != nil {
			t.Errorf("the release of %s: %v", kind, err)
		}
	}
	rw.TryLock() // asks the readers, who keep their lease, to leave
	for _, s := range servers {
		eventually(t, "no permit and no reader is left", func() bool {
			n, err := redis.Int(s.Do("EXISTS", "redlock:slots:permits", "redlock:readers:read", "a", "b", "c"))
			return err == nil && n == 0
		})
	}
}
