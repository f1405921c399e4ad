package redlocktest

// This file shows the tests of this module what a master executes: see package executed.

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/executed"
)

func init() {
	executed.Attach = func(master any, o executed.Observer) { master.(*Master).seen.observer = o }
}

// seen is what an observer of a master sees. Without an observer it has no effect.
type seen struct {
	observer executed.Observer // set before any client is connected

	mu        sync.Mutex         // held while a call that is observed is executed, and while keys are changed by other means
	published []executed.Message // by the call that is executed
}

// change changes keys by other means than a client's command.
func (s *seen) change(f func()) {
	if s.observer == nil {
		f()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.observer.Changed()
}

// observes reports whether the observer sees a command of a client.
func (s *seen) observes(l *link, command string, args []string) bool {
	if s.observer == nil || l == nil || l.mode != plain || l.selected {
		return false
	}
	return command == "SET" || command == "DEL" || command == "EVALSHA" && len(args) >= 2
}

// observe executes a command of a client that the observer sees, and answers it.
func (m *Master) observe(srv *server.Server, p *server.Peer, l *link, command string, args []string) {
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	c := &executed.Call{Link: l.id, Now: time.Now(), Name: command, Args: args, Left: m.mini.TTL}
	c.Read = func(command ...string) string { return reply(srv, command...) }
	if command == "EVALSHA" {
		text, _ := texts.Load(args[0])
		c.Script, _ = text.(string)
		c.Args = args[1:]
	}
	m.seen.observer.Before(c)
	m.seen.published = nil
	c.Reply = replyOf(func(inner *server.Peer) {
		if command != "EVALSHA" || !m.scripts.callOwn(srv, inner, args) && !m.scripts.call(srv, inner, &link{}, args) {
			srv.Dispatch(inner, append([]string{command}, args...))
		}
	})
	c.Published = m.seen.published
	m.seen.observer.After(c)
	p.WriteRaw(c.Reply)
}

// publishes notes a message that the call which is executed sends.
func (s *seen) publishes(command string, args []string) {
	if s.observer != nil && command == "PUBLISH" && len(args) == 2 {
		s.published = append(s.published, executed.Message{Channel: args[0], Text: args[1]})
	}
}
