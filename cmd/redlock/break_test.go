package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestBreakEndsALeaseAndSaysWhose(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	a := openQuietly(t, masters, redlock.Options{Owner: "web-1", LockOptions: redlock.LockOptions{TTL: time.Hour, RenewEvery: time.Second}})
	lease := hold(t, a, "stock").Lease()
	b := waitAsleep(t, masters, "web-2", "stock")

	const held = "stock is held by web-1, on 3 of 3 masters, for "
	out, errOut := runCommandLine(t, exitFailure, "n\n", "break", "--masters", masters, "stock")
	want(t, out, held, " more; 1 client waits: web-2 ", "within about a third of its TTL. Until\nthen two clients can hold the lock. ", "its command is\nkilled when redlock run notices.\nEnd this lease? [y/N] ")
	want(t, errOut, "redlock: error: nothing was ended\n")
	_, errOut = runCommandLine(t, exitFailure, "", "break", "--masters", masters, "stock")
	want(t, errOut, "nobody has said yes", "--force does not ask")
	if h, err := b.Inspect(t.Context(), "stock"); err != nil || h.Owner != "web-1" {
		t.Fatalf("Inspect = %+v, %v, want that web-1 still holds the lock", h, err)
	}

	out, _ = runCommandLine(t, exitOK, "y\n", "break", "--masters", masters, "stock")
	want(t, endedOnAll(out), held, "Ended the lease of web-1 on 3 of 3 masters.\n")
	until(t, func() bool { // the client that waits was granted the lock
		h, err := a.Inspect(t.Context(), "stock")
		return err == nil && h.Owner == "web-2"
	})
	<-lease.Done()
	if err := lease.Err(); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("Lease.Err = %v after the break, want ErrLost", err)
	}
	out, _ = runCommandLine(t, exitOK, "", "break", "--force", "--masters", masters, "stock")
	want(t, out, "stock is held by web-2, ", "Ended the lease of web-2 on ")
	if strings.Contains(out, "?") {
		t.Errorf("--force asks:\n%s", out)
	}
	_, errOut = runCommandLine(t, exitFailure, "", "break", "--force", "--masters", masters, "stock")
	want(t, errOut, "redlock: error: nobody holds stock\n")

	do(t, servers[0], "SET", "other", "2Q==abcdefghij", "EX", 90)
	out, _ = runCommandLine(t, exitOK, "yes\n", "break", "--masters", masters, "other")
	want(t, replaceAll(out, `1m\d+s`, "1m30s"), "other is not held; too few masters have a key of unknown, on 1 of 3 masters, for 1m30s more.\n", "Ended the lease of unknown on 1 of 3 masters.\n")
	if err := servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	hold(t, a, "again")
	out, _ = runCommandLine(t, exitOK, "", "break", "--force", "--masters", masters, "again")
	want(t, out, servers[0].Addr()+": not reachable: ", "Ended the lease of web-1 on 2 of 3 masters.\n")
	if err := servers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	_, errOut = runCommandLine(t, exitNoQuorum, "", "break", "--force", "--masters", masters, "again")
	want(t, errOut, "1 of 3 masters answered; 2 are needed")
}

// endedOnAll replaces 2 of 3 masters by all in what break says it has ended. After the first two, a renewal may tell the holder,
// whose release deletes the third key before break does.
func endedOnAll(out string) string {
	return replaceAll(out, `(Ended the leases? of .*) on 2 of 3 masters`, "$1 on 3 of 3 masters")
}

// waitAsleep returns a Client that waits in the queue for a lock. The holder's TTL is an hour.
func waitAsleep(t *testing.T, masters, owner, name string) *redlock.Client {
	t.Helper()
	// Its MaxTTL is that of the holder, so that no connection is lost when one of them raises that of the masters' records.
	var queued, sleeping atomic.Bool
	c := openQuietly(t, masters, redlock.Options{Owner: owner, MaxTTL: time.Hour, NewBackOff: func() redlock.BackOff {
		return backOffFunc(func() time.Duration {
			if !queued.Load() {
				return 50 * time.Millisecond
			}
			sleeping.Store(true)
			return time.Hour
		})
	}})
	waitFor(t, c, name)
	queued.Store(true)
	until(t, sleeping.Load)
	return c
}

func TestBreakEndsTheLeasesOfAllReaders(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	var leases []*redlock.Lease
	for _, owner := range []string{"web-1", "web-2"} {
		l := openQuietly(t, masters, redlock.Options{Owner: owner, LockOptions: redlock.LockOptions{TTL: time.Hour, RenewEvery: time.Second}}).RWLocker("stock")
		if err := l.RLocker().LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l.RLocker().Lease())
	}
	w := waitAsleep(t, masters, "writer", "stock")
	until(t, func() bool { // the last votes have come
		h, err := w.Inspect(t.Context(), "stock")
		return err == nil && h.Masters == 3 && len(h.Readers) == 2
	})
	out, _ := runCommandLine(t, exitOK, "y\n", "break", "--masters", masters, "stock")
	want(t, endedOnAll(out), "stock is held by 2 readers: ", "web-1", "web-2", "; 1 client waits: writer ", "Ended the leases of 2 readers: ", " on 3 of 3 masters.\n")
	for _, s := range leases {
		<-s.Done()
		if err := s.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Lease.Err of a reader = %v after the break, want ErrLost", err)
		}
	}
	until(t, func() bool {
		h, err := w.Inspect(t.Context(), "stock")
		return err == nil && h.Owner == "writer"
	})
}

// A holder whose renewal succeeds while the keys are being deleted sets them again.
func TestBreakDeletesKeysThatAreSetAgain(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	for _, s := range servers {
		s.Set("stock", "token")
		s.SetTTL("stock", time.Hour)
	}
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		for servers[0].Exists("stock") && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		servers[0].Set("stock", "token")
		servers[0].SetTTL("stock", time.Hour)
	}()
	out, _ := runCommandLine(t, exitOK, "", "break", "--force", "--masters", masters, "stock")
	want(t, out, "Ended the lease of unknown on 3 of 3 masters.\n")
	<-healed
	if servers[0].Exists("stock") {
		t.Error("the key that was set again is still there")
	}
}

type backOffFunc func() time.Duration

func (f backOffFunc) NextBackOff() time.Duration { return f() }

// A lease that was acquired between the question and the answer is not ended.
func TestBreakEndsNoOtherLeaseThanItHasShown(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	a := openQuietly(t, masters, redlock.Options{Owner: "web-1"})
	b := openQuietly(t, masters, redlock.Options{Owner: "web-2"})
	l := hold(t, a, "stock")
	in := readerFunc(func(p []byte) (int, error) {
		if l != nil {
			l.UnlockContext(t.Context())
			l = nil
			hold(t, b, "stock")
		}
		return copy(p, "y\n"), nil
	})
	var out, errOut bytes.Buffer
	if status := run(t.Context(), []string{"redlock", "break", "--masters", masters, "stock"}, in, &out, &errOut); status != exitFailure {
		t.Errorf("exit status %d, want %d", status, exitFailure)
	}
	want(t, errOut.String(), "the lease of web-1 had ended before, and somebody else holds stock now")
	if h, err := a.Inspect(t.Context(), "stock"); err != nil || h.Owner != "web-2" {
		t.Errorf("Inspect = %+v, %v, want that web-2 holds the lock", h, err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// What is not a lock is not deleted, whatever the options. Somebody needs the data.
func TestBreakDeletesNothingThatIsNotALock(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	for _, row := range []struct {
		name string
		put  []any
		want string
	}{
		{"session:1", []any{"SET", "session:1", "2Q==abcdefghij"}, "the key has no expiry, so it is not a lock"},
		{"session:2", []any{"RPUSH", "session:2", "x"}, "the key holds data that is not a lock"},
		{"session:3", []any{"HSET", "session:3", "f", "v"}, "the key holds data that is not a lock"},
		{"session:4", []any{"SETBIT", "session:4", 7, 1}, "the key has no expiry, so it is not a lock"},
	} {
		for _, s := range servers {
			do(t, s, row.put[0].(string), row.put[1:]...)
		}
		for _, option := range []string{"", "--force"} {
			args := slices.DeleteFunc([]string{"break", option, "--masters", masters, row.name}, func(s string) bool { return s == "" })
			_, errOut := runCommandLine(t, exitFailure, "yes\n", args...)
			want(t, errOut, "redlock: error: "+row.name+": "+row.want+": nothing was deleted\n")
		}
		for _, s := range servers {
			if n := do(t, s, "EXISTS", row.name); n != int64(1) {
				t.Errorf("EXISTS %s = %v, want the data still there", row.name, n)
			}
		}
	}
}
