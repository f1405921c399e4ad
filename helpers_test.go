package redlock_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// bubble runs f in a synctest bubble with n embedded masters. Time is virtual there, and a goroutine that is
// left fails the test.
func bubble(t *testing.T, n int, f func(t *testing.T, ms *redlocktest.Masters)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) { f(t, redlocktest.StartN(t, n)) })
}

// connected returns a Client whose masters are all up.
func connected(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Client {
	t.Helper()
	c := ms.Open(opts)
	synctest.Wait()
	for _, m := range c.Masters() {
		if m.State != redlock.MasterUp {
			t.Fatalf("%s is %s: %v", m.Name, m.State, m.Err)
		}
	}
	return c
}

// startAdopted starts stopped masters again, and adopts them first, so that they vote at once.
func startAdopted(ms *redlocktest.Masters, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Adopt()
		ms.Master(i).Start()
	}
}

// holders returns the values of a key at the masters, without empty ones.
func holders(ms *redlocktest.Masters, key string) []string {
	return slices.DeleteFunc(ms.Get(key), func(s string) bool { return s == "" })
}

// wantFree fails t if a key is left on any master.
func wantFree(t *testing.T, ms *redlocktest.Masters, key string) {
	t.Helper()
	synctest.Wait()
	if got := holders(ms, key); len(got) != 0 {
		t.Errorf("%d masters keep the key %q, want none", len(got), key)
	}
}

// lockKeys returns the keys of a master, except for what it notes about clients that wait, which stays for an hour.
func lockKeys(m *redlocktest.Master) []string {
	return slices.DeleteFunc(m.Keys(), func(key string) bool { return strings.HasPrefix(key, "redlock:waiter:") })
}

// sets returns how many SETs of a key a master has executed.
func sets(m *redlocktest.Master, key string) (n int) {
	for _, command := range m.Commands() {
		if strings.HasPrefix(command, "SET "+key+" ") {
			n++
		}
	}
	return n
}

// hold sets the key at some masters as another client would.
func hold(ms *redlocktest.Masters, key string, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Set(key, "somebody else's", 0)
	}
}

// fenceAt returns the fence that a master keeps for a name.
func fenceAt(t *testing.T, m *redlocktest.Master, name string) int64 {
	t.Helper()
	text, ok := m.Get("redlock:fence:" + name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s keeps the fence %q", m.Name(), text)
	}
	return n
}

// number splits a fence into the part that masters agree on and the count of handovers.
func number(fence uint64) (int64, uint64) { return int64(fence >> 10), fence & 1023 }
