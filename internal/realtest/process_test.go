package realtest_test

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
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

const (
	roleVariable    = "REDLOCK_TEST_ROLE"
	mastersVariable = "REDLOCK_TEST_MASTERS"
	fileVariable    = "REDLOCK_TEST_FILE"
)

// roles are the programs that this test binary can run as another process. Each returns an exit status.
var roles = map[string]func() int{
	"counter": playCounter,
	"holder":  playHolder,
	"permits": playPermits,
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

const increments = 100

// exitLost is the exit status of a process that has lost its lease.
const exitLost = 3

// playCounter increments a number in a file, under the lock, by reading, waiting, and writing. It ends with exitLost if it was told
// that it had lost the lock.
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
		if err := l.UnlockContext(context.Background()); errors.Is(err, redlock.ErrLost) {
			return exitLost
		}
		if err := errors.Join(err, err2, err3); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// TestFourProcessesLoseNoUpdate: no update is lost while no process has lost its lease. A process that has no processor for too
// long, on a busy machine, is told that it has. Then all four begin again.
func TestFourProcessesLoseNoUpdate(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	file := filepath.Join(t.TempDir(), "counter")
	for range 10 {
		if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
		var workers []*exec.Cmd
		for range 4 {
			workers = append(workers, spawn(t, "counter", servers, fileVariable+"="+file))
		}
		lost := 0
		var failed error
		for _, w := range workers {
			if err := w.Wait(); w.ProcessState.ExitCode() == exitLost {
				lost++
			} else if err != nil {
				failed = fmt.Errorf("a worker: %w", err)
			}
		}
		if lost > 0 {
			t.Logf("%d processes have lost a lease", lost)
			continue
		}
		text, err := os.ReadFile(file)
		if want := strconv.Itoa(4 * increments); failed != nil || err != nil || string(text) != want {
			t.Errorf("the file says %q (%v), want %s; %v", text, err, want, failed)
		}
		wantEmpty(t, servers)
		return
	}
	t.Error("processes have lost leases ten times")
}

// playHolder locks, prints that it has the lock, waits for a line of input, and prints the first answer of its
// lease.
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
	// This loop does not sleep, so that after the pause the lease is asked before any timer runs.
	for now := last; now.Sub(last) < time.Second; now = time.Now() {
		last = now
	}
	fmt.Println("paused", s.Valid(), s.Err(), ctx.Err() != nil)
	<-s.Done()
	<-ctx.Done()
	fmt.Println("done", errors.Is(context.Cause(ctx), redlock.ErrLost), errors.Is(l.UnlockContext(context.Background()), redlock.ErrLost))
	return 0
}

func TestAHolderThatWasStoppedFindsItsLeaseLostAtOnce(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	holder, lines := spawnLines(t, "holder", servers)
	if got := <-lines; got != "locked" {
		t.Fatalf("the holder says %q, want locked", got)
	}
	holder.Process.Signal(syscall.SIGSTOP)
	ours := openReal(t, servers, nil).Locker("a")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	time.AfterFunc(30*time.Second, func() { holder.Process.Kill() }) // the process does not end by itself
	if err := lockRenewed(ctx, ours); err != nil {
		t.Fatal(err) // it becomes free by itself
	}
	time.Sleep(1500 * time.Millisecond) // the holder recognizes a pause by its length
	holder.Process.Signal(syscall.SIGCONT)
	// A timer of the holder may have run first. Then the loss has another text.
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
	wantEmpty(t, servers)
}

// playWaiter waits for the lock, and prints a line when it has it.
func playWaiter() int {
	c, err := redlock.Open(strings.Split(os.Getenv(mastersVariable), ","), busy())
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

func TestAStoppedWaiterDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
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
