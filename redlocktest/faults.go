package redlocktest

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/farexpiry"
)

// Freeze stops the master as SIGSTOP does. Dials still succeed, and connections accept requests until their
// buffers are full (64 KiB), but the master executes and answers nothing until Thaw. A command whose
// execution had begun may still finish. Freezing a frozen or stopped master does nothing.
func (m *Master) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen == nil && m.srv != nil {
		m.frozen = make(chan struct{})
	}
}

// Thaw ends a Freeze. The master executes the requests that it was sent meanwhile, including those of
// connections that their clients have closed since. So a SET whose sender gave up takes effect now, with its
// full time to live. The order between connections is random. Thawing a master that is not frozen does
// nothing.
func (m *Master) Thaw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.thawLocked()
}

func (m *Master) thawLocked() {
	if m.frozen != nil {
		close(m.frozen)
		m.frozen = nil
	}
}

// Delay makes every request that is written from now on arrive d later, as over a slow network. Zero or less
// means no delay. Requests that are sent together arrive together. Requests of one connection stay in order:
// after a shorter d, a request does not overtake an earlier one. Replies and dials are not delayed. To delay
// these too, for some clients, use [Masters.WithDelays].
func (m *Master) Delay(d time.Duration) { m.delay.Store(int64(d)) }

// LoseReply makes the master execute the next command with this name, such as "SET" or "evalsha", and then
// cut the connection instead of answering. Requests that the client sent after that command are lost. Each
// further call loses one more reply. The restart guard's probe, a script call behind every vote, is named PROBE.
func (m *Master) LoseReply(command string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lose[strings.ToUpper(command)]++
}

// DropRequest makes the master cut the connection instead of executing the next command with this name, in
// upper or lower case. Requests that the client sent after that command are lost. Each further call drops one
// more request.
func (m *Master) DropRequest(command string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop[strings.ToUpper(command)]++
}

// Fail makes the master answer every command with this error, such as "LOADING Redis is loading the dataset
// in memory", and execute none. An empty message ends the fault.
func (m *Master) Fail(message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = message
}

// Cut cuts all present connections. Requests that the master has not executed are lost, even if it is frozen.
// Clients can dial again at once.
func (m *Master) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutLocked()
}

// HangDials makes dials wait until ResumeDials or until their contexts end, as dials of an unreachable host
// do. Existing connections are not affected. The fault combines with others: a dial of a stopped master waits
// too, and is refused after ResumeDials.
func (m *Master) HangDials() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung == nil {
		m.hung = make(chan struct{})
	}
}

// ResumeDials ends HangDials: dials that wait continue, and later dials do not wait. If dials do not hang, it
// does nothing.
func (m *Master) ResumeDials() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung != nil {
		close(m.hung)
		m.hung = nil
	}
}

// greeting is the first command of every connection. connectLocked inserts it and hook removes it. From its
// argument the hook learns to which connection a peer belongs. No client can send it as its first command.
const greeting = "REDLOCKTEST.CONNECTION"

// connectLocked makes a connection to the running master and returns the client's end. The connection delays
// requests and replies by lag.
func (m *Master) connectLocked(lag time.Duration) *conn {
	client, srv := newConn(m.name, &m.delay, lag)
	m.nextID++
	l := &link{id: strconv.Itoa(m.nextID), conn: srv, dead: make(chan struct{})}
	m.links[l.id] = l
	srv.in.prepend([]byte("*2\r\n" + bulk(greeting) + bulk(l.id)))
	m.srv.ServeConn(srv)
	return client
}

func bulk(s string) string {
	return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n"
}

// cutLocked cuts all connections.
func (m *Master) cutLocked() {
	for _, l := range m.links {
		m.cutLinkLocked(l)
	}
}

// cutLinkLocked cuts one connection. No command of it is executed afterwards.
func (m *Master) cutLinkLocked(l *link) {
	if m.links[l.id] != l {
		return // it was cut before
	}
	delete(m.links, l.id)
	close(l.dead)
	l.conn.cut()
}

// hook is called by miniredis before each command, on the goroutine of its connection. It returns true if the
// command must not be executed.
func (m *Master) hook(srv *server.Server, p *server.Peer, command string, args []string) bool {
	m.mu.Lock()
	l := m.peers[p] // nil for the greeting and for commands that a script calls
	m.mu.Unlock()
	if l == nil {
		m.seen.publishes(command, args)
	}
	switch {
	case l != nil && l.inner:
		return false
	case l == nil && command == nesting:
		m.scripts.nested = p.Ctx // its mutex is locked by context
	case l == nil && farexpiry.Needed && farexpiry.Is(command, args):
		farexpiry.Answer(srv, p, command)
	case farexpiry.IsProbe(command, args):
		if !m.admit(p, probe, args) {
			m.answerProbe(srv, p, args[0])
		}
	case isServerInfo(command, args):
		if !m.admit(p, command, args) {
			m.answerServerInfo(p)
		}
	case m.seen.observes(l, command, args):
		if !m.admit(p, command, args) {
			m.observe(srv, p, l, command, args)
		}
	default:
		return m.admit(p, command, args) || l != nil && m.scripts.answer(srv, p, l, command, args)
	}
	return true
}

// admit applies the faults, and counts the command. It returns true if the command must not be executed.
func (m *Master) admit(p *server.Peer, command string, args []string) bool {
	m.mu.Lock()
	l := m.peers[p]
	if l == nil {
		defer m.mu.Unlock()
		return m.welcomeLocked(p, command, args)
	}
	for m.frozen != nil && m.links[l.id] == l {
		thawed := m.frozen
		m.mu.Unlock()
		select {
		case <-thawed:
		case <-l.dead:
		}
		m.mu.Lock()
	}
	defer m.mu.Unlock()
	switch {
	case m.links[l.id] != l:
		// miniredis read this command before the cut.
		return true
	case m.drop[command] > 0:
		m.drop[command]--
		m.cutLinkLocked(l)
		return true
	case m.fail != "":
		p.WriteError(m.fail)
		return true
	case m.lose[command] > 0:
		m.lose[command]--
		l.conn.out.loseNext(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.cutLinkLocked(l)
		})
	}
	m.count[command]++
	m.log = append(m.log, append([]string{command}, args...))
	return false
}

// welcomeLocked handles a command of a peer that is not in peers: the greeting of a new connection, or a
// command that a script calls.
func (m *Master) welcomeLocked(p *server.Peer, command string, args []string) bool {
	if command != greeting || len(args) != 1 {
		// miniredis makes a new peer for each command that a script calls. Such a command is part of its
		// script: faults do not apply to it, and it is not counted.
		return false
	}
	l := m.links[args[0]]
	if l == nil {
		// The connection was cut before its greeting was executed. It gets a link that is not in m.links.
		// Without one, the commands that miniredis has read would pass for commands of a script.
		l = &link{}
	}
	m.peers[p] = l
	p.OnDisconnect(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.peers, p)
		if m.links[l.id] == l {
			delete(m.links, l.id)
		}
	})
	return true
}

// line returns the command in the form in which Commands reports it.
func line(command []string) string {
	var b strings.Builder
	b.WriteString(command[0])
	for _, a := range command[1:] {
		b.WriteByte(' ')
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			a = strconv.Quote(a)
		}
		b.WriteString(a)
	}
	return b.String()
}
