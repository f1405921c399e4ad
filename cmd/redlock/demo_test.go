package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// playDemo runs a short demo, which must succeed and leave no file behind.
func playDemo(t *testing.T, masters []master) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // os.TempDir reads one of these, depending on the system
		t.Setenv(name, dir)
	}
	var out bytes.Buffer
	if err := runDemo(t.Context(), masters, 10, &out, &progress{}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the demo left %v behind", left)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 && !strings.HasPrefix(line, "waiting") {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	return out.String()
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) && !strings.Contains(unfolded(text), unfolded(part)) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

// unfolded returns text on one line, without the folds of a screen.
func unfolded(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestDemoLosesNothingWithTheLockWhileAnEmbeddedMasterStops(t *testing.T) {
	out := playDemo(t, nil)
	want(t, out, "4 processes add 1", "on 5 embedded Redis masters",
		"at 20, master 3 of 5 (127.0.0.1:", ") is stopped\n",
		"with the lock:    added 40, and the file says 40: none lost", "any 3 of 5 masters")
	if strings.Contains(out, "without the lock: added 40, and the file says 40:") {
		t.Errorf("without the lock nothing was lost:\n%s", out)
	}
}

func TestDemoOnGivenMastersStopsNoneAndAdoptsNone(t *testing.T) {
	servers, list := freshMasters(t, 3)
	out := playDemo(t, mustParse(t, list))
	want(t, out, "on 3 given Redis masters", "waiting for the masters: ", // in quarantine, or on a busy machine before that: not connected
		"at 20, master 2 of 3 ("+servers[1].Addr()+") is cut off\n",
		"with the lock:    added 40, and the file says 40: none lost", "any 2 of 3 masters")
	if n := strings.Count(out, "waiting for"); n != 1 {
		t.Errorf("the output mentions the wait %d times, want once:\n%s", n, out)
	}
	if strings.Contains(out, "s3kret") {
		t.Errorf("the output shows a password:\n%s", out)
	}
	conn, err := redis.Dial("tcp", servers[1].Addr(), redis.DialPassword("s3kret"))
	if err != nil {
		t.Fatalf("the server whose connections were cut is gone: %v", err)
	}
	conn.Close()
}

func TestDemoWithoutAMajorityFails(t *testing.T) {
	t.Parallel()
	_, list := embedMasters(t, 3)
	masters := mustParse(t, firstDown(list, 2))
	down := masters[0].Address()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const line = "waiting for the masters: "
	out := &cancelling{on: line, times: 1, cancel: cancel}
	if err := runDemo(ctx, masters, 10, out, &progress{}); err == nil {
		t.Errorf("runDemo = nil, want an error:\n%s", out)
	}
	want(t, out.String(), line, down)
}

// The demo and `redlock verify` begin with this wait.
func TestTheWaitForAQuorumThatDoesNotAnswerEndsWithItsExitStatus(t *testing.T) {
	t.Parallel()
	_, list := embedMasters(t, 3)
	masters := mustParse(t, firstDown(list, 2))
	client, err := openClient(rawURLs(masters), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var errOut bytes.Buffer
	err = awaitQuorum(t.Context(), client, time.Millisecond, "try", io.Discard, &progress{})
	if got := report(t.Context(), err, &errOut); got != exitNoQuorum {
		t.Errorf("exit status %d, want %d", got, exitNoQuorum)
	}
	want(t, errOut.String(), "redlock: error: no quorum of the masters: ", "redlock: hint: try\n")
}

func TestCountFailsWhenAWorkerFails(t *testing.T) {
	_, _, err := count(t.Context(), workerConfig{Each: 3, Lock: "n", Masters: []string{"no URL"}}, func(int) {})
	if err == nil || !strings.Contains(err.Error(), "of 4: exit status 1") {
		t.Errorf("count = %v, want a worker's failure", err)
	}
}

func TestCountEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A million increments would take half an hour.
	_, _, err := count(ctx, workerConfig{Each: 1_000_000}, func(done int) {
		if done > 10 {
			cancel()
		}
	})
	if err != context.Canceled {
		t.Errorf("count = %v, want %v", err, context.Canceled)
	}
}

func TestAWorkerEndsWhenTheDemoDies(t *testing.T) {
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(c.Name())
	defer c.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], workerCommandName)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	to := json.NewEncoder(in)
	to.Encode(workerConfig{File: c.Name(), Each: 1_000_000})
	to.Encode(true)
	events := bufio.NewReader(out)
	for range 2 { // it is ready, and has made one increment
		if _, err := events.ReadByte(); err != nil {
			t.Fatal(err)
		}
	}
	in.Close() // as when the parent dies
	for err == nil {
		_, err = events.ReadByte()
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the worker succeeded, want a failure: it was not done")
	}
}

func TestTheCounterLosesAnUpdateThatIsOverwritten(t *testing.T) {
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(c.Name())
	defer c.Close()
	stale, err := readCounter(c)
	if err != nil || stale != 0 {
		t.Fatalf("read = %d, %v, want 0", stale, err)
	}
	for range 12 {
		if err := increment(c); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readCounter(c); got != 12 || err != nil {
		t.Errorf("after 12 increments read = %d, %v", got, err)
	}
	if err := writeCounter(c, stale+1); err != nil {
		t.Fatal(err)
	}
	if got, _ := readCounter(c); got != 1 {
		t.Errorf("after a write of 1 read = %d", got)
	}
	if _, err := c.WriteAt([]byte("x"), 7); err != nil {
		t.Fatal(err)
	}
	if _, err := readCounter(c); err == nil {
		t.Error("read of a letter returned no error")
	}
}

func TestRelayPassesConnectionsOnUntilItIsCut(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	s.RequireAuth("s3kret")
	m := mustParse(t, "redis://:s3kret@"+s.Addr()+"/3")[0]
	address, cut, err := relay(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer cut()
	conn, err := redis.DialURL(m.At(address))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.DB(3).Get("k"); got != "v" {
		t.Errorf("database 3 of the master holds %q, want %q", got, "v")
	}
	cut()
	until(t, func() bool {
		_, err := redis.DialURL(m.At(address))
		return err != nil
	})
	until(t, func() bool {
		_, err := conn.Do("PING")
		return err != nil
	})
}

// No version is released, so there is no site to send the reader to.
func TestTheDemoNamesNoSite(t *testing.T) {
	for _, nothingLost := range []bool{false, true} {
		if text := conclusion(5, nothingLost, true); strings.Contains(text, "://") || !strings.Contains(text, "README.md") {
			t.Errorf("the demo ends with:\n%s", text)
		}
	}
}
