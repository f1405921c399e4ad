package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// These tests run on real redis-server processes, started on free ports of the
// loopback address. They skip where there is no redis-server.

const (
	roleVariable    = "REDLOCK_TEST_ROLE"
	mastersVariable = "REDLOCK_TEST_MASTERS"
	fileVariable    = "REDLOCK_TEST_FILE"
)

// roles are what this test binary can play as another process; each returns an
// exit status.
var roles = map[string]func() int{
	"counter": playCounter,
	"holder":  playHolder,
	"waiter":  playWaiter,
}

// spawn starts this test binary as another process in a role.
func spawn(t *testing.T, role string, servers []*redisserver.Server, env ...string) *exec.Cmd {
	t.Helper()
	cmd := command(role, servers, env...)
	start(t, cmd)
	return cmd
}

// spawnLines is spawn, with the lines that the process prints.
func spawnLines(t *testing.T, role string, servers []*redisserver.Server, env ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := command(role, servers, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	start(t, cmd)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	return cmd, lines
}

// command returns this test binary as a process in a role.
func command(role string, servers []*redisserver.Server, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, mastersVariable+"="+strings.Join(addresses(servers), ","))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	return cmd
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
}

func addresses(servers []*redisserver.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// openReal returns a Client of real servers.
func openReal(tb testing.TB, servers []*redisserver.Server, opts *redlock.Options) *redlock.Client {
	tb.Helper()
	c, err := redlock.Open(addresses(servers), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	if err := c.Ping(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return c
}

// eventually waits until ok, for real time is not ours to command. It fails tb
// after a bound that no healthy machine needs.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	tb.Fatalf("it never came about that %s", what)
}

const increments = 100

// playCounter increments a number in a file, under the lock, by reading,
// waiting, and writing.
func playCounter() int {
	c, err := redlock.Open(strings.Split(os.Getenv(mastersVariable), ","), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	l := c.Locker("counter")
	for range increments {
		l.Lock()
		text, err := os.ReadFile(os.Getenv(fileVariable))
		n, err2 := strconv.Atoi(string(text))
		time.Sleep(time.Millisecond)
		err3 := os.WriteFile(os.Getenv(fileVariable), []byte(strconv.Itoa(n+1)), 0o600)
		l.Unlock()
		if err := errors.Join(err, err2, err3); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func TestFourProcessesLoseNoUpdate(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 5)
	file := filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var workers []*exec.Cmd
	for range 4 {
		workers = append(workers, spawn(t, "counter", servers, fileVariable+"="+file))
	}
	for _, w := range workers {
		if err := w.Wait(); err != nil {
			t.Errorf("a worker: %v", err)
		}
	}
	text, err := os.ReadFile(file)
	if want := strconv.Itoa(4 * increments); err != nil || string(text) != want {
		t.Errorf("the file says %q (%v), want %s", text, err, want)
	}
	if !empty(t, servers) {
		t.Error("a key is left behind")
	}
}

func TestAMinorityOfRealMastersMayFreezeAndDie(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 5)
	l := openReal(t, servers, nil).Locker("a")
	cycle := func(when string) {
		t.Helper()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := l.LockContext(ctx); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if err := l.UnlockContext(ctx); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			cancel()
		}
	}
	cycle("healthy")
	servers[0].Freeze()
	servers[3].Freeze()
	cycle("two frozen")
	servers[1].Freeze()
	err := l.TryLockContext(t.Context())
	if outcome(err) != "no quorum" {
		t.Errorf("TryLockContext with three frozen = %v, want a QuorumError that is not ErrHeld", err)
	}
	servers[1].Thaw()
	eventually(t, "the third master is back", func() bool {
		err := l.TryLockContext(t.Context())
		if err == nil {
			l.Unlock()
		}
		return err == nil
	})
	servers[0].Thaw()
	servers[3].Thaw()
	servers[1].Kill()
	servers[2].Kill()
	eventually(t, "the thawed ones vote", func() bool { return l.TryLockContext(t.Context()) == nil })
	l.Unlock()
	cycle("two killed")
	servers[1].Restart()
	servers[2].Restart()
	eventually(t, "no key is left", func() bool { return empty(t, servers) })
}

// A SET that reached a frozen master takes effect when it thaws, for an hour,
// long after its sender has given up: nobody else will ever delete it.
func TestASetThatAFrozenMasterAppliesLateIsUndone(t *testing.T) {
	const locks = 100
	servers := redisserver.AdoptedTB(t, 5)
	opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}, DialTimeout: 200 * time.Millisecond}
	c := openReal(t, servers, opts)
	for _, thaw := range []struct {
		name string
		wait func() bool
	}{
		{"the connection stands", func() bool { return true }},
		{"the connection was given up", func() bool { return states(c, redlock.MasterDown) >= 3 }},
	} {
		for i := range 3 {
			servers[i].Freeze()
		}
		var wg sync.WaitGroup
		for i := range locks {
			wg.Go(func() {
				if err := c.Locker("a" + strconv.Itoa(i)).TryLockContext(t.Context()); outcome(err) != "no quorum" {
					t.Errorf("TryLockContext = %v, want no quorum", err)
				}
			})
		}
		wg.Wait()
		eventually(t, thaw.name, thaw.wait)
		for i := range 3 {
			servers[i].Thaw()
		}
		eventually(t, "the masters are up", func() bool { return states(c, redlock.MasterUp) == 5 })
		eventually(t, "no key is left", func() bool { return empty(t, servers) })
	}
}

// TestAnOldConnectionCannotUndoARelease holds back the SETs of a connection
// until the client has lost it, made another, and released on that one: then
// they come.
func TestAnOldConnectionCannotUndoARelease(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		late bool // the SETs are executed
	}{
		{name: "the server kills it", late: false},
		{name: "the server forbids CLIENT", args: []string{"--rename-command", "CLIENT", ""}, late: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 1)
			if len(row.args) > 0 {
				servers = redisserver.AdoptedTB(t, 1, row.args...)
			}
			proxy := redisserver.ProxyTB(t, servers[0].Addr())
			c, err := redlock.Open([]string{proxy.Addr()}, &redlock.Options{
				LockOptions: redlock.LockOptions{TTL: time.Hour}, DialTimeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			sets, scripts := calls(t, servers[0], "set"), calls(t, servers[0], "evalsha")
			proxy.Hold()
			if err := c.Locker("a").TryLockContext(t.Context()); outcome(err) != "no quorum" {
				t.Errorf("TryLockContext = %v, want no quorum", err)
			}
			eventually(t, "the release has been sent on another connection", func() bool {
				return calls(t, servers[0], "evalsha") > scripts+1 // the guard's look is one
			})
			proxy.Release()
			if row.late {
				eventually(t, "the late SET is executed", func() bool { return calls(t, servers[0], "set") == sets+1 })
			} else {
				eventually(t, "the late SET is refused a hearing", func() bool { return connections(t, servers[0]) <= 3 })
				if n := calls(t, servers[0], "set") - sets; n != 0 {
					t.Errorf("%d SETs came through a connection that was killed", n)
				}
			}
			eventually(t, "no key is left", func() bool { return empty(t, servers) })
		})
	}
}

// states counts the masters in a state.
func states(c *redlock.Client, state redlock.MasterState) (n int) {
	for _, m := range c.Masters() {
		if m.State == state {
			n++
		}
	}
	return n
}

// empty reports whether no server has any key, but for its record of restarts.
func empty(tb testing.TB, servers []*redisserver.Server) bool {
	tb.Helper()
	for _, s := range servers {
		keys, err := redis.Strings(s.Do("KEYS", "*"))
		if err != nil {
			tb.Fatal(err)
		}
		if len(keys) > 1 || len(keys) == 1 && keys[0] != "redlock:incarnation" {
			return false
		}
	}
	return true
}

// calls returns how often a server has executed a command.
func calls(tb testing.TB, s *redisserver.Server, command string) int {
	tb.Helper()
	return infoNumber(tb, s, "commandstats", "cmdstat_"+command+":calls=")
}

// connections returns how many connections a server has, ours included.
func connections(tb testing.TB, s *redisserver.Server) int {
	tb.Helper()
	return infoNumber(tb, s, "clients", "connected_clients:")
}

// infoNumber returns the number that follows a word in a section of INFO.
func infoNumber(tb testing.TB, s *redisserver.Server, section, word string) int {
	tb.Helper()
	info, err := redis.String(s.Do("INFO", section))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, word)
	n, _ := strconv.Atoi(rest[:strings.IndexFunc(rest+".", func(r rune) bool { return r < '0' || r > '9' })])
	return n
}

// playHolder locks, says so, and when it is told to go on tells what its lease
// says at the first question.
func playHolder() int {
	c, err := redlock.Open(strings.Split(os.Getenv(mastersVariable), ","),
		&redlock.Options{LockOptions: redlock.LockOptions{TTL: 500 * time.Millisecond}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	l := c.Locker("a")
	l.Lock()
	s := l.Lease()
	ctx := s.Context(context.Background())
	last := time.Now() // before we can be stopped
	fmt.Println("locked")
	// Running hot, so that a question comes first after the pause, before any
	// timer has changed what it is answered from.
	for now := last; now.Sub(last) < time.Second; now = time.Now() {
		last = now
	}
	fmt.Println("paused", s.Valid(), s.Err(), ctx.Err() != nil)
	<-s.Done()
	<-ctx.Done()
	fmt.Println("done", errors.Is(context.Cause(ctx), redlock.ErrLost), errors.Is(l.UnlockContext(context.Background()), redlock.ErrLost))
	return 0
}

func TestAHolderThatWasStoppedKnowsAtTheFirstQuestion(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 5)
	holder, lines := spawnLines(t, "holder", servers)
	if got := <-lines; got != "locked" {
		t.Fatalf("the holder says %q, want locked", got)
	}
	holder.Process.Signal(syscall.SIGSTOP)
	ours := openReal(t, servers, nil).Locker("a")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	time.AfterFunc(30*time.Second, func() { holder.Process.Kill() }) // it has no end of its own
	if err := ours.LockContext(ctx); err != nil {
		t.Fatal(err) // it runs out by itself
	}
	time.Sleep(1500 * time.Millisecond) // the holder tells a pause by its length
	holder.Process.Signal(syscall.SIGCONT)
	// Its timers may have been as quick as its question: then the loss has
	// another wording, and still it is a loss.
	if got := <-lines; !strings.HasPrefix(got, "paused false redlock: lease of \"a\" lost: ") || !strings.HasSuffix(got, " true") {
		t.Errorf("after the pause the holder says %q, want it to know of the loss", got)
	}
	if got := <-lines; got != "done true true" {
		t.Errorf("the holder says %q, want done true true", got)
	}
	if err := holder.Wait(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := ours.UnlockContext(t.Context()); err != nil {
		t.Errorf("the stale holder has disturbed its successor: %v", err)
	}
	eventually(t, "no key is left", func() bool { return empty(t, servers) })
}

// playWaiter waits for the lock, and says when it has it.
func playWaiter() int {
	c, err := redlock.Open(strings.Split(os.Getenv(mastersVariable), ","), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	if err := c.Ping(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	l := c.Locker("a")
	fmt.Println("waiting")
	l.Lock()
	fmt.Println("in")
	l.Unlock()
	return 0
}

func TestAWaiterThatIsStoppedWhenItIsItsTurnHoldsNobodyUp(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 5)
	ours := openReal(t, servers, nil).Locker("a")
	ours.Lock()
	queue := func(n int) {
		eventually(t, fmt.Sprintf("%d clients queue", n), func() bool {
			for _, s := range servers {
				if got, err := s.Do("ZCARD", "redlock:queue:a"); err != nil || got != int64(n) {
					return false
				}
			}
			return true
		})
	}
	first, firstSays := spawnLines(t, "waiter", servers)
	<-firstSays
	queue(1)
	second, secondSays := spawnLines(t, "waiter", servers)
	<-secondSays
	queue(2)
	first.Process.Signal(syscall.SIGSTOP)
	ours.Unlock()
	if got := <-secondSays; got != "in" {
		t.Errorf("the second waiter says %q, want in", got)
	}
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
	first.Process.Signal(syscall.SIGCONT)
	if got := <-firstSays; got != "in" {
		t.Errorf("the first waiter says %q, want in", got)
	}
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	eventually(t, "no key is left", func() bool {
		n, err := servers[0].Do("EXISTS", "a")
		return err == nil && n == int64(0)
	})
}
