package redlocktest

// This file answers SCRIPT LOAD and SCRIPT EXISTS in place of miniredis, which parses a script each time that it is loaded.
// Scripts of redlock are loaded into every master, so that parsing took a fifth of the time of a test.

import (
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// parsed has the digests of the scripts that miniredis has accepted in this process, by text, and texts has the texts by digest.
var parsed, texts sync.Map

// scripts are the scripts of one master that were loaded without miniredis.
type scripts struct {
	mini   *miniredis.Miniredis // immutable
	mu     sync.Mutex           // guards the fields below
	texts  map[string]string    // by digest
	nested any                  // see context
}

// A mode is what the earlier commands of a connection mean for its next one.
type mode int

const (
	plain       mode = iota
	transaction      // from MULTI to EXEC or DISCARD: commands are only queued
	subscribed       // from the first subscription on: few commands are allowed
)

// after returns the mode in which a command leaves its connection.
func (m mode) after(command string) mode {
	switch command {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		return subscribed
	case "MULTI":
		return max(m, transaction)
	case "EXEC", "DISCARD":
		if m == transaction {
			return plain
		}
	}
	return m
}

// answer executes a command about scripts, and reports whether it has. The others are left to miniredis.
func (s *scripts) answer(srv *server.Server, p *server.Peer, l *link, command string, args []string) bool {
	defer func() { l.mode = l.mode.after(command) }()
	switch {
	case command == "SCRIPT" && len(args) == 2 && strings.EqualFold(args[0], "load"):
		return l.mode == plain && s.load(srv, p, args[1])
	case command == "SCRIPT" && len(args) >= 2 && strings.EqualFold(args[0], "exists") && l.mode == plain:
		p.WriteLen(len(args) - 1)
		for _, digest := range args[1:] {
			n := 0
			if s.exist(srv, digest) {
				n = 1
			}
			p.WriteInt(n)
		}
		return true
	case command == "EVALSHA" && len(args) >= 2:
		return l.mode == plain && !l.selected && s.callOwn(srv, p, args) || l.mode != subscribed && s.call(srv, p, l, args)
	case command == "SELECT":
		l.selected = true
	case command == "SCRIPT", command == "EVALSHA_RO":
		s.handOver(srv)
	}
	return false
}

// load answers SCRIPT LOAD, unless the script is new to this process and invalid.
func (s *scripts) load(srv *server.Server, p *server.Peer, text string) bool {
	sum, ok := parsed.Load(text)
	if !ok && loadOwn(text) {
		sum, ok = digest(text), true
		parsed.Store(text, sum)
	}
	if !ok {
		parts := strings.Split(reply(srv, "SCRIPT", "LOAD", text), "\r\n")
		if parts[0] != "$40" {
			return false
		}
		sum = parts[1]
		parsed.Store(text, sum)
	}
	texts.Store(sum, text)
	s.mu.Lock()
	s.texts[sum.(string)] = text
	s.mu.Unlock()
	p.WriteBulk(sum.(string))
	return true
}

// callOwn executes a script of redlock without miniredis.
func (s *scripts) callOwn(srv *server.Server, p *server.Peer, args []string) bool {
	script := compiled(args[0])
	keys, others, ok := parameters(args[1:])
	if script == nil || !ok || !s.exist(srv, args[0]) {
		return false
	}
	i, ok := interpreters.Get().(*interpreter)
	if !ok {
		i = newInterpreter(s.context(srv))
	}
	s.mini.Lock() // as miniredis does for a script
	defer s.mini.Unlock()
	if i.run(srv, p, script, args[0], keys, others) {
		interpreters.Put(i)
	}
	return true
}

// nesting is a command that only a script of this package calls.
const nesting = "REDLOCKTEST.NESTING"

// context returns the Ctx by which miniredis knows the peer of a command that a script calls, and executes it without waiting for
// the end of the script. Only miniredis can make one, so it executes a script that calls a command.
func (s *scripts) context(srv *server.Server) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(srv, "EVAL", "redis.pcall('"+nesting+"')", "0")
	if s.nested == nil {
		panic("redlocktest: bug: miniredis has not executed a script")
	}
	return s.nested
}

// call executes an EVALSHA as the EVAL of the same script: miniredis parses the script of an EVAL once per process.
// After that it knows the script, unless it has failed or is queued in a transaction.
func (s *scripts) call(srv *server.Server, p *server.Peer, l *link, args []string) bool {
	text, ok := s.text(args[0])
	if !ok {
		return false
	}
	l.inner = true // the hook lets the EVAL pass
	srv.Dispatch(p, append([]string{"EVAL", text}, args[1:]...))
	l.inner = false
	s.mu.Lock()
	defer s.mu.Unlock()
	if known(srv, args[0]) {
		delete(s.texts, args[0])
	}
	return true
}

func (s *scripts) text(digest string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.texts[digest]
	return text, ok
}

// exist reports whether the master has a script.
func (s *scripts) exist(srv *server.Server, digest string) bool {
	_, ok := s.text(digest)
	return ok || known(srv, digest)
}

// known reports whether miniredis knows a script.
func known(srv *server.Server, digest string) bool {
	return reply(srv, "SCRIPT", "EXISTS", digest) == "*1\r\n:1\r\n"
}

// handOver loads all scripts into miniredis, for commands that it executes itself.
func (s *scripts) handOver(srv *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.texts {
		reply(srv, "SCRIPT", "LOAD", text)
	}
	clear(s.texts)
}

// flush deletes all scripts, also those of miniredis, in the only way that it offers.
func (s *scripts) flush(srv *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.texts)
	reply(srv, "SCRIPT", "FLUSH")
}
