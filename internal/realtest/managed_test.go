package realtest_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// barred returns the commands that managed services bar, by service, as docs/operations.md lists them.
func barred(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Managed services\n")
	all := make(map[string][]string)
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| ((?:`[A-Z]+(?: [A-Z]+)?`,? ?)+)\\|").FindAllStringSubmatch(text, -1) {
		for _, c := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			all[row[1]] = append(all[row[1]], strings.ToLower(strings.ReplaceAll(c[1], " ", "|")))
		}
	}
	if len(all) < 4 {
		t.Fatalf("the document has %d services with barred commands, want 4 at least", len(all))
	}
	return all
}

// Each service's bars, as rights of a user on a server here: locks are granted to clients that wait.
func TestLocksWorkWithTheCommandsThatManagedServicesBar(t *testing.T) {
	t.Parallel()
	for service, commands := range barred(t) {
		t.Run(service, func(t *testing.T) {
			servers := redisserver.AdoptedTB(t, 3)
			rules := []any{"+@all", "~*", "&*"}
			for _, c := range commands {
				rules = append(rules, "-"+c)
			}
			one, two := openAs(t, servers, rules...), openAs(t, servers, rules...)
			eventually(t, "all masters vote", func() bool {
				return locktest.States(one, redlock.MasterUp) == 3 && locktest.States(two, redlock.MasterUp) == 3
			})
			for _, m := range one.Masters() {
				if m.WakeErr != nil || m.GuardErr != nil {
					t.Errorf("%s: WakeErr %v, GuardErr %v, want none", m.Name, m.WakeErr, m.GuardErr)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			a, b := one.Locker("a"), two.Locker("a")
			a.Lock()
			waits := make(chan error, 1)
			go func() { waits <- b.LockContext(ctx) }()
			eventually(t, "client 2 is in the queue", func() bool {
				h, err := one.Inspect(ctx, "a")
				return err == nil && h.Waiting == 1
			})
			a.Unlock()
			if err := <-waits; err != nil {
				t.Fatalf("the lock is not passed on: %v", err)
			}
			if err := b.UnlockContext(ctx); err != nil && !errors.Is(err, redlock.ErrLost) { // lost before its first renewal, on a busy machine
				t.Error(err)
			}
		})
	}
}

// A managed service with a replica has one address. After a failover, the replica is there, with its data.
func TestOneEndpointWithFailoverTellsTheHolderBeforeTheNextMayEnter(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 2)
	if err := servers[0].Adopt(); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(servers[0].Addr(), ":")
	do(t, servers[1], "REPLICAOF", host, port)
	endpoint := proxy.TB(t, servers[0].Addr())
	opts := func() *redlock.Options {
		o := busy()
		o.LockOptions, o.MaxTTL = redlock.LockOptions{TTL: 5 * time.Second}, 5*time.Second
		return o
	}
	holder, next := open(t, opts(), endpoint.Addr()), open(t, opts(), endpoint.Addr())
	l := holder.Locker("a")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := l.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica has the record", func() bool { return record(t, servers[1]) == record(t, servers[0]) })
	lease := l.Lease()
	entered := make(chan error, 1)
	go func() {
		err := next.Locker("a").LockContext(ctx)
		if lease.Valid() {
			t.Error("two hold the lock")
		}
		entered <- err
	}()
	do(t, servers[1], "REPLICAOF", "NO", "ONE")
	endpoint.Aim(servers[1].Addr())
	servers[0].Kill()
	select {
	case <-lease.Done():
	case <-ctx.Done():
		t.Fatal("the holder is not told")
	}
	eventually(t, "the promoted server is quarantined", func() bool { return locktest.States(next, redlock.MasterQuarantined) == 1 })
	if err := <-entered; err != nil {
		t.Errorf("LockContext = %v after the quarantine", err)
	}
}
