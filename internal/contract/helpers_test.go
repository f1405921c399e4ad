package contract_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// Short names for what most tests here use.
var (
	bubble        = locktest.Bubble
	connected     = locktest.Connected
	holders       = locktest.Holders
	wantFree      = locktest.WantFree
	hold          = locktest.Hold
	sets          = locktest.Sets
	acquire       = locktest.Acquire
	countCommands = locktest.Commands
	lockKeys      = locktest.LockKeys
	number        = locktest.Number
	openAt        = locktest.OpenAt
	openVia       = locktest.OpenVia
	polls         = locktest.Polls
	queueOf       = locktest.Queue
	startAdopted  = locktest.StartAdopted
)

// grantLasts is for how long a lock is granted with a TTL of 10 s, while the masters are near.
const grantLasts = time.Second

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

func TestMain(m *testing.M) { locktest.Main(m) }
