package semaphores_test

import (
	"testing"

	"github.com/redlock-go/redlock/internal/locktest"
)

// Short names for what most tests here use.
var (
	bubble        = locktest.Bubble
	connected     = locktest.Connected
	acquire       = locktest.Acquire
	countCommands = locktest.Commands
	lockKeys      = locktest.LockKeys
	number        = locktest.Number
	openAt        = locktest.OpenAt
	polls         = locktest.Polls
	queueOf       = locktest.Queue
	startAdopted  = locktest.StartAdopted
)

func TestMain(m *testing.M) { locktest.Main(m) }
