package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// aclOf returns the words of what `redlock doctor --acl` prints, for a user shop whose
// password is s3kret.
func aclOf(t *testing.T, flags ...string) []any {
	t.Helper()
	var out, errOut bytes.Buffer
	args := append([]string{"redlock", "doctor", "--acl"}, flags...)
	if status := run(t.Context(), args, strings.NewReader(""), &out, &errOut); status != exitOK {
		t.Fatalf("exit status %d: %s", status, errOut.String())
	}
	text := strings.NewReplacer("SETUSER redlock", "SETUSER shop", ">PASSWORD", ">s3kret").Replace(out.String())
	var words []any
	for word := range strings.FieldsSeq(text) {
		words = append(words, word)
	}
	return words
}

func TestTheACLRuleIsEnoughForEverythingThatAClientDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, prefix string
		db           int
	}{
		{"no prefix", "", 0},
		{"a prefix and a database", "app:", 3},
		{"a prefix of odd characters", `a[p]* "?\é`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.StartTB(t, 3)
			var urls []string
			for _, s := range servers {
				urls = append(urls, fmt.Sprintf("redis://shop:s3kret@%s/%d", s.Addr(), tt.db))
			}
			masters := strings.Join(urls, ",")
			rule := aclOf(t, "--prefix", tt.prefix, "--masters", masters)
			for _, s := range servers {
				do(t, s, rule[0].(string), rule[1:]...)
			}
			if out := runDoctor(t, exitNoQuorum, masters, "--prefix", tt.prefix); strings.Contains(out, "does not allow") {
				t.Errorf("the doctor finds rights missing:\n%s", out)
			}
			for _, s := range servers {
				do(t, s, "ACL", "LOG", "RESET") // the doctor asks for settings that clients do not need
			}
			liveAs(t, servers, masters, tt.prefix)
			for _, s := range servers {
				entries, err := redis.Values(s.Do("ACL", "LOG"))
				if err != nil || len(entries) > 0 {
					t.Errorf("ACL LOG = %v, %q, want no entry", err, entries)
				}
			}
			wantUsed(t, servers, rule)
		})
	}
}

// liveAs does everything that clients do: they wait for a quarantine, acquire, wake each other, renew, set a lost
// key again, lose their connections, and find a master that has lost its data.
func liveAs(t *testing.T, servers []*redisserver.Server, masters, prefix string) {
	t.Helper()
	renewed := make(chan struct{}, 1000)
	opts := redlock.Options{
		// A busy machine stands still for seconds. The quarantine, which the test waits for, is not much longer.
		LockOptions: redlock.LockOptions{TTL: 5 * time.Second, RenewEvery: 50 * time.Millisecond, Fencing: true, Handover: -1},
		MaxTTL:      5 * time.Second,
		NodeTimeout: 2 * time.Second,
		Prefix:      prefix,
		Trace:       &redlock.Trace{Renewed: func(context.Context, redlock.RenewedInfo) { renewed <- struct{}{} }},
	}
	a, b := openQuietly(t, masters, opts), openQuietly(t, masters, opts)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, second := a.Locker("stock"), b.Locker("stock")
	unlock := func(l *redlock.Locker) {
		// A lock that is granted may be lost before its first renewal, on a busy machine.
		if err := l.UnlockContext(ctx); err != nil && !errors.Is(err, redlock.ErrLost) {
			t.Error(err)
		}
	}
	for range 3 {
		if err := first.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		in := make(chan error, 1)
		go func() { in <- second.LockContext(ctx) }()
		<-renewed
		until(t, func() bool { return queued(t, servers) })
		until(t, func() bool {
			h, err := b.Inspect(ctx, "stock")
			return err == nil && h.Held && h.Owner != "" && len(h.Errs) == 0
		})
		unlock(first)
		if err := <-in; err != nil {
			t.Fatal(err)
		}
		if second.Lease().Fence() == 0 {
			t.Error("the lease has no fence")
		}
		unlock(second)
	}
	readTogether(t, ctx, a.RWLocker("shelf"), b.RWLocker("shelf"))
	shareTogether(t, ctx, a.Semaphore("seats", 3), b.Semaphore("seats", 3))
	both := func() []redlock.MasterStatus { return append(a.Masters(), b.Masters()...) }
	until(t, func() bool { // the last quarantine has ended, too
		return !slices.ContainsFunc(both(), func(m redlock.MasterStatus) bool { return m.State == redlock.MasterQuarantined })
	})
	for _, m := range both() {
		if m.State != redlock.MasterUp || m.WakeErr != nil || m.GuardErr != nil {
			t.Errorf("%s: %s (%v), WakeErr = %v, GuardErr = %v, want nothing to be missing", m.Name, m.State, m.Err, m.WakeErr, m.GuardErr)
		}
	}
	if err := first.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	do(t, servers[0], "FLUSHALL") // the key is lost, and set again behind a renewal
	until(t, func() bool { return a.Masters()[0].State == redlock.MasterQuarantined })
	kills := make([]int, len(servers))
	for i, s := range servers[1:] {
		do(t, s, "CLIENT", "KILL", "TYPE", "normal")
		kills[i] = calls(t, s, "client|kill")
	}
	for i, s := range servers[1:] {
		until(t, func() bool { return calls(t, s, "client|kill") > kills[i] })
	}
	until(t, func() bool {
		return a.Ping(ctx) == nil && !slices.ContainsFunc(a.Masters(), func(m redlock.MasterStatus) bool { return m.State != redlock.MasterUp })
	})
	first.Unlock()
}

// readTogether does what readers do, and what a writer does that they keep out.
func readTogether(t *testing.T, ctx context.Context, a, b *redlock.RWLocker) {
	t.Helper()
	for _, l := range []*redlock.Locker{a.RLocker(), b.RLocker()} {
		if err := l.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	b.RUnlock()
	for range 3 {
		if b.TryLock() {
			t.Error("a writer has the lock beside a reader")
		}
	}
	a.RUnlock()
	if err := b.Locker().LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	b.Unlock()
}

// shareTogether has one client wait for the permits of another, whose release grants them.
func shareTogether(t *testing.T, ctx context.Context, a, b *redlock.Semaphore) {
	t.Helper()
	p, err := a.AcquireN(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	in := make(chan error, 1)
	go func() { in <- b.DoN(ctx, 2, func(context.Context) error { return nil }) }()
	if _, err := b.TryAcquire(ctx); !errors.Is(err, redlock.ErrHeld) {
		t.Errorf("TryAcquire of a full semaphore: %v", err)
	}
	if err := p.ReleaseContext(ctx); err != nil {
		t.Error(err)
	}
	if err := <-in; err != nil && !errors.Is(err, redlock.ErrLost) { // lost before its first renewal, on a busy machine
		t.Error(err)
	}
}

// queued reports whether a client waits for the lock at a master.
func queued(t *testing.T, servers []*redisserver.Server) bool {
	t.Helper()
	for _, s := range servers {
		if calls(t, s, "zadd") == 0 {
			return false
		}
	}
	return true
}

// calls returns how often a server has executed a command, which may be a|b.
func calls(t *testing.T, s *redisserver.Server, command string) int {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "commandstats"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(info, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	n := 0
	fmt.Sscanf(rest, "%d", &n)
	return n
}

// wantUsed fails t unless every command of the rule was executed: otherwise the rule would allow too much.
func wantUsed(t *testing.T, servers []*redisserver.Server, rule []any) {
	t.Helper()
	for _, word := range rule {
		command, ok := strings.CutPrefix(word.(string), "+")
		if ok && !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return calls(t, s, command) > 0 }) {
			t.Errorf("the rule allows %s, which no client has used", command)
		}
	}
}

func TestDoctorNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := redisserver.AdoptedTB(t, 1)[0]
	const prefix = "app:"
	url := "redis://shop:s3kret@" + s.Addr()
	rule := aclOf(t, "--prefix", prefix)
	for i, word := range rule {
		right := word.(string)
		var names []string
		votes := "yes"
		switch right[0] {
		case '+':
			names = []string{strings.ToUpper(right[1:])}
			votes = map[bool]string{true: "yes", false: "no"}[slices.Contains([]string{
				"+client|id", "+client|info", "+client|kill", "+info", "+mget", "+exists", "+script|exists", "+publish", "+pubsub|numsub", "+subscribe",
				"+unsubscribe", "+zadd", "+zrem", "+getrange", "+zcard", "+zrange", "+zrank",
				"+zscore", "+zrevrange", "+zrangebyscore", "+zrandmember", "+zremrangebyscore", "+bitpos", "+hdel", "+hget", "+hset", "+setbit"}, right)]
		case '~':
			if key, ok := strings.CutPrefix(right, "~redlock:"); !ok || strings.HasPrefix(key, "incarnation") {
				votes = "no"
			}
			names = []string{" " + right[1:]}
		case '&':
			names = []string{"PUBLISH redlock:wake:*", "SUBSCRIBE redlock:wake:*"}
		default:
			continue
		}
		t.Run(right, func(t *testing.T) {
			less := slices.Delete(slices.Clone(rule), i, i+1)
			do(t, s, less[0].(string), less[1:]...)
			out := runDoctor(t, map[string]int{"yes": exitOK, "no": exitNoQuorum}[votes], url, "--prefix", prefix)
			got, _, _ := row(t, out, s.Addr())
			if got != votes {
				t.Errorf("votes %q, want %q", got, votes)
			}
			want(t, out, append(names, "does not allow ", "redlock doctor --acl")...)
			if right != "~app:*" { // the client may use locks of other names, which the doctor has not tried
				wantAgreement(t, url, prefix, votes)
			}
		})
	}
}

// wantAgreement fails t unless a client counts the votes of a master if and only if the doctor says so.
func wantAgreement(t *testing.T, url, prefix, votes string) {
	t.Helper()
	c := openQuietly(t, url, redlock.Options{Prefix: prefix})
	defer c.Close()
	if err := c.Ping(t.Context()); (err == nil) != (votes == "yes") {
		t.Errorf("the doctor says votes %q, and Ping = %v", votes, err)
	}
}

func TestDoctorSaysThatTheDatabaseIsForbidden(t *testing.T) {
	t.Parallel()
	s := redisserver.AdoptedTB(t, 1)[0]
	rule := aclOf(t)
	do(t, s, rule[0].(string), rule[1:]...)
	wantRow(t, runDoctor(t, exitNoQuorum, "redis://shop:s3kret@"+s.Addr()+"/1"), s.Addr(), "no", "-", "access denied: NOPERM")
}

func TestDoctorSaysThatAServerRefusesToWrite(t *testing.T) {
	t.Parallel()
	s := redisserver.AdoptedTB(t, 1)[0]
	do(t, s, "CONFIG", "SET", "min-replicas-to-write", 1)
	wantRow(t, runDoctor(t, exitNoQuorum, s.Addr()), s.Addr(), "no", "master",
		"refuses SET (NOREPLICAS: it has too few replicas, so it refuses writes), so no lock can be acquired, renewed or released here: connect its replicas")
}

func TestStatusNamesMastersThatRefuseToWrite(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	do(t, servers[0], "CONFIG", "SET", "maxmemory", "500kb")
	args := []string{"status", "--masters", servers[0].Addr() + "," + servers[1].Addr() + "," + servers[2].Addr(), "job"}
	const want = "it grants no locks: OOM: its memory is full"
	if out, _ := runCommandLine(t, 0, "", args...); !strings.Contains(out, servers[0].Addr()+": "+want) {
		t.Errorf("no line with %q:\n%s", want, out)
	}
	do(t, servers[0], "CONFIG", "SET", "maxmemory", "0")
	if out, _ := runCommandLine(t, 0, "", args...); strings.Contains(out, "grants no locks") {
		t.Errorf("a master that accepts writes is named:\n%s", out)
	}
}

func TestTheRightsToAdoptAreEnoughForAdopting(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3)
	rule := aclOf(t, "--adopt", "--prefix", "app:")
	var urls []string
	for _, s := range servers {
		do(t, s, rule[0].(string), rule[1:]...)
		do(t, s, "SET", "app", "not under the prefix")
		urls = append(urls, "redis://shop:s3kret@"+s.Addr())
	}
	masters := strings.Join(urls, ",")
	do(t, servers[0], "SET", "app:stock", "0123456789abcdef", "EX", 60)
	want(t, runDoctor(t, exitFailure, masters, "--adopt", "--prefix", "app:"), `"app:stock"`)
	do(t, servers[0], "DEL", "app:stock")
	runDoctor(t, exitOK, masters, "--adopt", "--prefix", "app:")
}

func TestTheDocsHaveTheACLRule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	if rule := aclLine("", false, false); !strings.Contains(string(text), "\n"+rule+"\n") {
		t.Errorf("docs/operations.md does not have\n%s", rule)
	}
}

// The scripts hide some errors, so a command that is forbidden there might remain unnoticed.
func TestTheACLRuleAllowsEveryCommandOfTheScripts(t *testing.T) {
	rule := strings.Fields(aclLine("", false, false))
	scripts, err := filepath.Glob(filepath.Join("..", "..", "internal", "*", "*.lua"))
	if err != nil || len(scripts) < 2 {
		t.Fatalf("the scripts are not where they were: %q, %v", scripts, err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`redis\.p?call\('(\w+)'(?:, '([A-Z]+)')?`).FindAllStringSubmatch(string(text), -1) {
			command := "+" + strings.ToLower(call[1])
			if !slices.Contains(rule, command) && !slices.Contains(rule, command+"|"+strings.ToLower(call[2])) {
				t.Errorf("%s calls %s %s, which the rule does not allow", script, call[1], call[2])
			}
		}
	}
}
