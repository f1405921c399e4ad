package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// runCommandLine runs a command line with this input, checks the exit status, and returns the output.
func runCommandLine(t *testing.T, status int, in string, args ...string) (out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	if got := run(t.Context(), append([]string{"redlock"}, args...), strings.NewReader(in), &o, &e); got != status {
		t.Errorf("%q: exit status %d, want %d:\n%s%s", args, got, status, &o, &e)
	}
	if strings.Contains(o.String()+e.String(), "s3kret") {
		t.Errorf("the output shows a password:\n%s%s", &o, &e)
	}
	return o.String(), e.String()
}

// wantLine fails t unless a line consists of these cells.
func wantLine(t *testing.T, out string, cells ...string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var got []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				got = append(got, cell)
			}
		}
		if slices.Equal(got, cells) {
			return
		}
	}
	t.Errorf("no line %q in:\n%s", cells, out)
}

// replaceAll replaces what changes from run to run.
func replaceAll(text, pattern, by string) string {
	return regexp.MustCompile(pattern).ReplaceAllString(text, by)
}

// hold makes c hold a lock on all masters that answer, and returns it.
func hold(t *testing.T, c *redlock.Client, name string) *redlock.Locker {
	t.Helper()
	l := c.Locker(name)
	until(t, func() bool { // no first connection is under way
		return !slices.ContainsFunc(c.Masters(), func(m redlock.MasterStatus) bool { return m.State == redlock.MasterConnecting })
	})
	until(t, func() bool { // the last SET was executed, and a lock that was granted was renewed: on a busy machine it may be lost before
		if !l.Lease().Valid() {
			if l.Lease() != nil {
				l.Unlock()
			}
			if err := l.LockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h, err := c.Inspect(t.Context(), name)
		return err == nil && h.Masters+len(h.Errs) == len(c.Masters()) && h.Left > time.Second
	})
	return l
}

// waitFor makes c wait for a lock until the test ends, or until it has it.
func waitFor(t *testing.T, c *redlock.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go c.Locker(name).LockContext(ctx)
	until(t, func() bool {
		h, err := c.Inspect(t.Context(), name)
		return err == nil && h.Waiting > 0 && len(h.Errs) == 0 // it is in a quorum of queues
	})
}

func TestStatusShowsWhoHoldsAndWhoWaits(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3, "--requirepass", "s3kret")
	var urls []string
	for _, s := range servers {
		urls = append(urls, "redis://:s3kret@"+s.Addr())
	}
	masters := strings.Join(urls, ",")
	a := openQuietly(t, masters, redlock.Options{Owner: "web-1/11", LockOptions: redlock.LockOptions{TTL: time.Hour}, MaxTTL: time.Hour})
	b := openQuietly(t, masters, redlock.Options{Owner: "web-2/22", MaxTTL: time.Hour})
	hold(t, a, "app:stock")
	hold(t, a, "app:two words")
	waitFor(t, b, "app:stock")
	for _, s := range servers {
		do(t, s, "SET", "app:foreign", "2Q==abcdefghij", "EX", 90)
		do(t, s, "SET", "config", "0123456789abcdef")
		do(t, s, "SET", "app:\x1b[2J", "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@\x1b[2Jroot")
		do(t, s, "RPUSH", "list", "x")
	}
	do(t, servers[0], "SET", "app:left", "2Q==abcdefghij", "EX", 90)

	out, _ := runCommandLine(t, exitOK, "", "status", "--masters", masters, "app:stock", "free", "list")
	out = replaceAll(out, `web-2/22 \d+\.\ds`, "web-2/22 1s")
	out = replaceAll(out, ` 59m5\ds`, " 59m")
	wantLine(t, out, "NAME", "OWNER", "LEFT", "MASTERS", "FENCE", "WAITING")
	wantLine(t, out, "app:stock", "web-1/11", "59m", "3 of 3", "-", "1: web-2/22 1s")
	wantLine(t, out, "free", "-", "-", "0 of 3", "-", "-")
	wantLine(t, out, "list", "-", "-", "0 of 3", "-", "-")
	wantLine(t, out, "the key holds data that is not a lock")

	out, _ = runCommandLine(t, exitOK, "", "status", "--masters", masters, "--prefix", "app:")
	out = replaceAll(out, ` 1m\d+s`, " 1m")
	out = replaceAll(out, ` 59m5\ds`, " 59m")
	wantLine(t, out, "app:foreign", "unknown", "1m", "3 of 3", "-", "-")
	wantLine(t, out, "app:left", "unknown (no majority)", "1m", "1 of 3", "-", "-")
	wantLine(t, out, `"app:two words"`, "web-1/11", "59m", "3 of 3", "-", "-")
	wantLine(t, out, `"app:\x1b[2J"`, "-", "-", "0 of 3", "-", "-")
	wantLine(t, out, "the key has no expiry, so it is not a lock")
	if strings.Contains(out, "\x1b") || strings.Contains(out, "config") {
		t.Errorf("the output has an escape, or a key of another prefix:\n%q", out)
	}

	out, _ = runCommandLine(t, exitOK, "", "status", "--masters", masters)
	for name, want := range map[string]bool{"app:stock": true, "app:foreign": true, "config": false, "list": false, "redlock:": false} {
		if strings.Contains(out, name) != want {
			t.Errorf("the list of all locks has %s: %t, want %t:\n%s", name, !want, want, out)
		}
	}
	if err := servers[2].Kill(); err != nil {
		t.Fatal(err)
	}
	out, _ = runCommandLine(t, exitOK, "", "status", "--masters", masters, "app:foreign")
	want(t, out, "app:foreign  unknown ", "2 of 3", "\n"+servers[2].Addr()+": not reachable: connection refused (no server listens at this address)\n")
	if err := servers[1].Freeze(); err != nil {
		t.Fatal(err)
	}
	out, errOut := runCommandLine(t, exitNoQuorum, "", "status", "--masters", masters)
	want(t, out, servers[1].Addr()+": not reachable: no answer within "+doctorPatience.String())
	want(t, errOut, "redlock: error: 1 of 3 masters answered; 2 are needed to know who holds a lock\n")
}

func TestStatusAsJSON(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	a := openQuietly(t, masters, redlock.Options{Owner: "web-1", LockOptions: redlock.LockOptions{Fencing: true}})
	b := openQuietly(t, masters, redlock.Options{Owner: "web-2"})
	l := hold(t, a, "stock")
	waitFor(t, b, "stock")
	if err := servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	out, _ := runCommandLine(t, exitOK, "", "status", "--json", "--masters", masters, "stock", "free")
	var got struct {
		Masters, Need, Answered int
		Troubles                []string
		Locks                   []struct {
			Name, Owner      string
			Held             bool
			Left             int64 `json:"left_ms"`
			Masters, Waiting int
			Fence            uint64
			Waiters          []struct {
				Owner  string
				Waited int64 `json:"waited_ms"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: the output is not one line of JSON:\n%s", err, out)
	}
	if got.Masters != 3 || got.Need != 2 || got.Answered != 2 || len(got.Troubles) != 1 || len(got.Locks) != 2 {
		t.Fatalf("got %+v, want 2 locks, and 2 of 3 masters", got)
	}
	free, stock := got.Locks[0], got.Locks[1]
	if free.Name != "free" || free.Held || free.Owner != "" || free.Masters != 0 || free.Left != 0 {
		t.Errorf("the free lock is %+v", free)
	}
	if stock.Name != "stock" || !stock.Held || stock.Owner != "web-1" || stock.Masters != 2 || stock.Fence != l.Lease().Fence() || stock.Left <= 0 ||
		stock.Waiting != 1 || len(stock.Waiters) != 1 || stock.Waiters[0].Owner != "web-2" || stock.Waiters[0].Waited < 0 {
		t.Errorf("the lock is %+v, want that of web-1", stock)
	}
}

// Names may have any bytes, and JSON has no others than UTF-8.
func TestStatusAsJSONTellsNamesApartThatAreNoUTF8(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	out, _ := runCommandLine(t, exitOK, "", "status", "--json", "--masters", masters, "a\xff", "a\xfe", "a\ufffd")
	var got struct {
		Locks []struct {
			Name  string
			Bytes []byte `json:"name_base64"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, l := range got.Locks {
		if l.Name != "a\ufffd" {
			t.Errorf("a lock has the name %q", l.Name)
		}
		all[string(l.Bytes)] = true
	}
	if len(all) != 3 || !all["a\xff"] || !all["a\xfe"] || !all[""] {
		t.Errorf("names that are not UTF-8: %v", all)
	}
}

func TestStatusWatchesUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelling{on: "NAME   OWNER", times: 3, cancel: cancel}
	var errOut bytes.Buffer
	status := run(ctx, []string{"redlock", "status", "--watch", "--masters", masters, "stock"}, strings.NewReader(""), out, &errOut)
	if status != exitInterrupted || errOut.Len() > 0 {
		t.Errorf("exit status %d, %q, want %d and no error", status, &errOut, exitInterrupted)
	}
	if n := strings.Count(out.String(), "NAME   OWNER"); n != 3 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d tables, want 3 without escapes:\n%q", n, out.String())
	}
}

// A cancelling is output that cancels a context when it has a text a number of times.
type cancelling struct {
	bytes.Buffer
	on     string
	times  int
	cancel context.CancelFunc
}

func (c *cancelling) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if strings.Count(c.String(), c.on) >= c.times {
		c.cancel()
	}
	return n, err
}

func TestTheRightsForStatusAreEnoughAndTheLeast(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	a := openQuietly(t, listOf(servers), redlock.Options{Owner: "web-1"})
	b := openQuietly(t, listOf(servers), redlock.Options{Owner: "web-2"})
	hold(t, a, "app:stock")
	waitFor(t, b, "app:stock")
	holdPermits(t, a, "app:gpus", 2, 2)
	waitForPermit(t, b, "app:gpus", 2)
	rule := aclOf(t, "--status", "--prefix", "app:")
	rule[2] = "shop"
	var urls []string
	for _, s := range servers {
		do(t, s, rule[0].(string), rule[1:]...)
		do(t, s, "CONFIG", "RESETSTAT")
		urls = append(urls, "redis://shop:s3kret@"+s.Addr())
	}
	out, _ := runCommandLine(t, exitOK, "", "status", "--masters", strings.Join(urls, ","), "--prefix", "app:")
	want(t, out, "app:stock  ", "1: web-2 ", "app:gpus  ", "2 of 2 permits", "app:gpus#0", "app:gpus#1")
	for _, s := range servers {
		if entries, err := redis.Values(s.Do("ACL", "LOG")); err != nil || len(entries) > 0 {
			t.Errorf("ACL LOG = %v, %q, want no entry", err, entries)
		}
	}
	wantUsed(t, servers, rule)
	// A master without the right counts as failed, with the reason.
	do(t, servers[0], "ACL", "SETUSER", "shop", "-getrange")
	out, _ = runCommandLine(t, exitOK, "", "status", "--masters", strings.Join(urls, ","), "app:stock")
	want(t, out, "2 of 3", servers[0].Addr()+": access denied: NOPERM")
	// A user of a service may not search for names.
	do(t, servers[0], "ACL", "SETUSER", "shop", "+getrange", "-scan")
	out, _ = runCommandLine(t, exitOK, "", "status", "--masters", strings.Join(urls, ","), "--prefix", "app:")
	want(t, out, servers[0].Addr()+": access denied: SCAN: NOPERM", "redlock doctor --acl --status prints the rights that it needs")
	do(t, servers[0], "ACL", "SETUSER", "shop", "+scan")
	// The rights before there were semaphores show the locks.
	do(t, servers[0], "ACL", "SETUSER", "shop", "+getrange", "-hget")
	do(t, servers[1], "ACL", "SETUSER", "shop", "resetkeys", "~app:*", "~redlock:queue:app:*", "~redlock:fence:app:*", "~redlock:readers:app:*")
	out, _ = runCommandLine(t, exitOK, "", "status", "--masters", strings.Join(urls, ","), "--prefix", "app:")
	want(t, out, "app:stock", "3 of 3", servers[0].Addr()+": a semaphore app:gpus cannot be read: ", servers[1].Addr()+": semaphores cannot be read: ")
}

func TestMastersCanBeReadFromAFile(t *testing.T) {
	_, masters := embedMasters(t, 3)
	file := filepath.Join(t.TempDir(), "masters")
	text := byteOrderMark + "# the masters of the shop\n\n" + strings.Replace(strings.Replace(masters, ",", "\n  ", 1), ",", ", ", 1) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := runCommandLine(t, exitOK, "", "status", "--masters", "@"+file, "stock")
	want(t, out, "0 of 3")
	t.Setenv(mastersEnv, "@"+file)
	runCommandLine(t, exitOK, "", "doctor")
	for _, tt := range []struct{ name, text, want string }{
		{"a bad URL", "h:1\n# x\nredis://:s3kret@\n", "redlock: error: " + file + ": URL 2: no host"},
		{"UTF-16", "\xff\xfeh\x00:\x001\x00", "redlock: error: --masters: " + file + " is UTF-16: save it as UTF-8"},
		{"nothing", "\n#\n", "redlock: error: " + file + ": the list of masters is empty: set what it is read from"},
		{"too much", strings.Repeat("#\n", 1<<20), "redlock: error: --masters: " + file + " is larger than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, errOut := runCommandLine(t, exitUsage, "", "status", "--masters", "@"+file)
			want(t, errOut, tt.want)
		})
	}
	_, errOut := runCommandLine(t, exitUsage, "", "status", "--masters", "@/nix")
	want(t, errOut, "redlock: error: --masters: open /nix: no such file")
}

func TestATableShortensAndQuotesNames(t *testing.T) {
	for name, want := range map[string]string{
		"stock":                  "stock",
		"two words":              `"two words"`,
		"\x1b[31m":               `"\x1b[31m"`,
		"büro":                   "büro",
		"\xff":                   `"\xff"`,
		strings.Repeat("x", 61):  strings.Repeat("x", 60) + "…",
		strings.Repeat("é", 31):  strings.Repeat("é", 30) + "…",
		strings.Repeat("x ", 31): `"` + strings.Repeat("x ", 30) + `"…`,
	} {
		if got := shown(name); got != want {
			t.Errorf("shown(%q) = %s, want %s", name, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0.0s", 8190 * time.Millisecond: "8.2s", 90 * time.Second: "1m30s"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestAScreenFitsItsTerminal(t *testing.T) {
	const text = "1234567890\näöü\nthree\nfour\n"
	for _, tt := range []struct {
		rows, columns int
		want          string
	}{
		{0, 0, text},
		{5, 10, text},
		{4, 5, "1234…\näöü\n… 2 …\n"},
		{4, 20, "1234567890\näöü\n… 2 more lines\n"},
		{2, 20, "… 4 more lines\n"},
		{1, 20, text},
	} {
		if got := fit(text, func() (int, int) { return tt.rows, tt.columns }); got != tt.want {
			t.Errorf("on %d lines of %d columns: %q, want %q", tt.rows, tt.columns, got, tt.want)
		}
	}
	var out strings.Builder
	s := &screen{out: &out, terminal: true, size: func() (int, int) { return 3, 9 }}
	s.show("a\nb\n")
	s.show("c\n")
	if want := "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J" + "\x1b[Hc\x1b[K\r\n\x1b[J"; out.String() != want {
		t.Errorf("the terminal gets %q, want %q", out.String(), want)
	}
}
