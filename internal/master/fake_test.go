package master

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/wire"
)

type fake = fakeserver.Server

// Special replies.
const (
	silence = fakeserver.Silence
	hangUp  = fakeserver.HangUp
	stall   = fakeserver.Stall
)

// ok answers as a healthy server does if all locks are free.
func ok(_ int, cmd []string) string {
	switch cmd[0] {
	case "SET":
		return "+OK\r\n"
	case "PING":
		return "+PONG\r\n"
	case "EVALSHA":
		n, _ := strconv.Atoi(cmd[2])
		answers := ""
		for i := range n {
			word := strings.Fields(cmd[4+n+2*i])
			if len(word) == 5 || word[0] == "commit" { // an acquisition with a fence
				answers += "*2\r\n:1\r\n:5\r\n"
			} else {
				answers += ":1\r\n"
			}
		}
		if n == 1 {
			return answers
		}
		return fmt.Sprintf("*%d\r\n", n) + answers
	case "SCRIPT":
		return "$3\r\nabc\r\n"
	case "CLIENT":
		return ":1\r\n"
	}
	return "-ERR unknown command\r\n"
}

// answers collects the answers to an asker.
type answers struct {
	mu    sync.Mutex
	all   []wire.Answer
	first time.Time
}

func (a *answers) Answered(_ int, answer wire.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all = append(a.all, answer); len(a.all) == 1 {
		a.first = time.Now()
	}
}

func (a *answers) get() []wire.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]wire.Answer(nil), a.all...)
}

// run starts a Master on a fake, in a bubble, and closes it at the end.
func run(t *testing.T, handle func(int, []string) string, f func(t *testing.T, m *Master, server *fake)) {
	t.Helper()
	server := &fake{Handle: handle}
	runOn(t, server.Pool, func(t *testing.T, m *Master) { f(t, m, server) })
}

// runOn is run for a pool of the caller's.
func runOn(t *testing.T, pool func() *redis.Pool, f func(t *testing.T, m *Master)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		m := Start(Config{
			Pool:        pool(),
			Servers:     alone(0),
			NodeTimeout: 50 * time.Millisecond,
			DialTimeout: time.Second,
			Listener:    client{every: 100 * time.Millisecond},
		})
		synctest.Wait()
		f(t, m)
		m.Close()
		<-m.Done()
		time.Sleep(2 * time.Hour) // the goroutines of servers that stall have ended
	})
}

// alone returns the Servers of a client of one master, with a MaxTTL; 0: without the restart guard.
func alone(maxTTL time.Duration) *guard.Servers {
	return guard.NewServers(guard.Settings{Names: []string{"it"}, MaxTTL: maxTTL, Off: maxTTL == 0})
}

type every time.Duration

func (e every) NextBackOff() time.Duration { return time.Duration(e) }

// A client is a Listener. It expects the messages for which it has a function.
type client struct {
	every   time.Duration // between dials
	changed func(now Status)
	freed   func(key, token string)
	granted func(master int, g Grant)
	near    func(token string) *SentClaim // returns the claim if it was released
	calm    func() bool
	g       time.Duration // that of a claim that is near; 0: none is
}

func (c client) Changed(_ int, now Status) {
	if c.changed != nil {
		c.changed(now)
	}
}

func (c client) Freed(_ int, key, token string) bool {
	if c.freed != nil {
		c.freed(key, token)
	}
	return c.freed != nil
}

func (c client) Granted(i int, g Grant) bool {
	if c.granted != nil {
		c.granted(i, g)
	}
	return c.granted != nil
}

func (c client) Near(_ int, _, token string) (released *SentClaim, expected bool) {
	if c.near == nil {
		return nil, false
	}
	return c.near(token), true
}

func (c client) Waiting(int) (time.Time, time.Duration, bool) { return time.Time{}, c.g, c.g > 0 }
func (c client) Calm() bool                                   { return c.calm != nil && c.calm() }
func (c client) Redial() Schedule                             { return every(c.every) }
func (c client) Up(int)                                       {}
func (c client) Recalled(int, string, string) bool            { return false }
func (c client) Value(int, wire.Value) bool                   { return false }
func (c client) Patience() (near, far time.Duration)          { return 0, 0 }
func (c client) Raising(before, now time.Duration)            {}

func claimOf(name string) *SentClaim { return claimWith(name, wire.ClaimOf{}) }

func claimBy(token, name string) *SentClaim { return claimWith(name, wire.ClaimOf{Token: token}) }

// claimWith returns a claim on a name, by a token of its own if of has none.
func claimWith(name string, of wire.ClaimOf) *SentClaim {
	terms := wire.NewTerms(name, time.Hour)
	of.Token = cmp.Or(of.Token, "token of "+name)
	return NewSentClaim(&terms, of)
}
