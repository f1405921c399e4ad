package quorum

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// A station is a master of a bubble. The zero value grants everything at once.
type station struct {
	away    time.Duration // its round trip
	dial    time.Duration // for how long its first connection is under way when f of among begins
	refuses bool          // it refuses commands of claims
	silent  bool          // it does not answer them
	hangsUp bool          // it hangs up instead
	down    bool          // it hangs up as soon as there is a connection

	ready chan struct{} // closed when f of among begins

	mu   sync.Mutex  // guards the fields below, and those above while there is a connection
	came []time.Time // when commands of claims have arrived
}

func (s *station) handle(_ int, cmd []string) string {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if cmd[0] == "SET" || cmd[0] == "EVALSHA" {
		time.Sleep(away / 2)
		reply := s.arrived(cmd[0])
		time.Sleep(away - away/2)
		return reply
	}
	switch {
	case s.down:
		return fakeserver.HangUp
	case cmd[0] == "SCRIPT" && cmd[1] == "EXISTS": // the first command of a connection
		time.Sleep(away)
	case cmd[0] == "PING":
		time.Sleep(away)
		return "+PONG\r\n"
	case cmd[0] == "CLIENT":
		return ":1\r\n"
	case cmd[0] != "SCRIPT":
		return "-ERR unknown command\r\n"
	}
	return fakeserver.Bulk("abc")
}

// arrived notes that a command of a claim has arrived, and returns the reply.
func (s *station) arrived(command string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came = append(s.came, time.Now())
	switch {
	case s.hangsUp:
		return fakeserver.HangUp
	case s.silent:
		return fakeserver.Silence
	case command == "SET" && s.refuses:
		return "$-1\r\n"
	case command == "SET":
		return "+OK\r\n"
	case s.refuses:
		return ":0\r\n"
	}
	return ":1\r\n"
}

// arrivals returns how long after start commands have arrived.
func (s *station) arrivals(start time.Time) (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.came {
		all = append(all, at.Sub(start))
	}
	return all
}

func (s *station) pool() *redis.Pool {
	p := (&fakeserver.Server{Handle: s.handle}).Pool()
	dial := p.DialContext
	p.DialContext = func(ctx context.Context) (redis.Conn, error) {
		if s.dial > 0 {
			<-s.ready
			time.Sleep(s.dial)
		}
		return dial(ctx)
	}
	return p
}

type every time.Duration

func (e every) NextBackOff() time.Duration { return time.Duration(e) }

// A patient is the Listener of a client without a subscription.
type patient struct{ master.Listener }

func (patient) Redial() master.Schedule    { return every(time.Minute) }
func (patient) Changed(int, master.Status) {}
func (patient) Up(int)                     {}
func (patient) Calm() bool                 { return false }

// among runs f in a bubble with a Group of these masters. All are connected whose dial is 0.
func among(t *testing.T, stations []*station, f func(t *testing.T, g *Group)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		names := make([]string, len(stations))
		for i := range names {
			names[i] = string(rune('a' + i))
		}
		servers := guard.NewServers(guard.Settings{Names: names, Off: true})
		var masters []*master.Master
		ready := make(chan struct{})
		for i, s := range stations {
			s.ready = ready
			masters = append(masters, master.Start(master.Config{
				Pool:        s.pool(),
				Index:       i,
				Servers:     servers,
				NodeTimeout: 50 * ms,
				DialTimeout: time.Minute,
				Listener:    patient{},
			}))
		}
		for i, s := range stations {
			for s.dial == 0 && masters[i].Connecting() {
				time.Sleep(ms / 10)
			}
		}
		synctest.Wait()
		close(ready)
		defer func() {
			for _, m := range masters {
				m.Close()
			}
			for _, m := range masters {
				<-m.Done()
			}
			time.Sleep(2 * time.Hour) // until the replies that are slow have come, and connections are closed
		}()
		f(t, NewGroup(masters))
	})
}

// mine returns a claim. Its commands need no script if they are Set.
func mine(of wire.ClaimOf) *master.SentClaim {
	terms := wire.NewTerms("k", time.Hour)
	of.Token = "token"
	return master.NewSentClaim(&terms, of)
}

// never is a goal that is never reached.
func never(Tally) bool { return false }
