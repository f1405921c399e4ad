package contract_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// Short names for what most tests here use.
var (
	bubble    = locktest.Bubble
	connected = locktest.Connected
	holders   = locktest.Holders
	wantFree  = locktest.WantFree
	hold      = locktest.Hold
	sets      = locktest.Sets
)

// startAdopted starts stopped masters again, and adopts them first, so that they vote at once.
func startAdopted(ms *redlocktest.Masters, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Adopt()
		ms.Master(i).Start()
	}
}

// lockKeys returns the keys of a master, except for what it notes about clients that wait, which stays for an hour.
func lockKeys(m *redlocktest.Master) []string {
	return slices.DeleteFunc(m.Keys(), func(key string) bool { return strings.HasPrefix(key, "redlock:waiter:") })
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

// openAt returns a connected Client with the same one-way delay to all masters.
func openAt(ms *redlocktest.Masters, oneWay time.Duration, opts *redlock.Options) *redlock.Client {
	c := ms.WithDelays(slices.Repeat([]time.Duration{oneWay}, ms.Len())...).Open(opts)
	time.Sleep(time.Second)
	return c
}

func TestMain(m *testing.M) { locktest.Main(m) }
