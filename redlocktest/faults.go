package redlocktest

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/alicebob/miniredis/v2/server"
)

// Freeze stops the master as SIGSTOP does: dials still succeed, requests are
// taken until the connection's buffer is full (64 KiB), and nothing is executed
// or answered until Thaw. A command whose execution had begun may still finish.
// Freezing a frozen or stopped master does nothing.
func (m *Master) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen == nil && m.srv != nil {
		m.frozen = make(chan struct{})
	}
}

// Thaw lets a frozen master go on. It executes what it was sent meanwhile, also
// what came through connections that their clients have closed since: a SET
// that its sender gave up on takes effect now, with its full time to live. Of
// several connections, which comes first is random.
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

// Delay makes every request that is written from now on arrive d later, as over
// a slow network; 0 or less turns that off. Requests that are sent together
// arrive together. Replies and dials are not delayed. The order of a connection
// is kept: after a shorter d, a request does not overtake an earlier one.
func (m *Master) Delay(d time.Duration) { m.delay.Store(int64(d)) }

// LoseReply makes the master execute the next command of this name, such as
// "SET" or "evalsha", and cut the connection instead of answering it. What the
// client had sent behind it is lost. Of n calls each loses one more reply.
func (m *Master) LoseReply(command string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lose[strings.ToUpper(command)]++
}

// DropRequest makes the master cut the connection instead of executing the next
// command of this name. What the client had sent behind it is lost. Of n calls
// each drops one more request.
func (m *Master) DropRequest(command string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop[strings.ToUpper(command)]++
}

// Fail makes the master answer every command with this error, such as
// "LOADING Redis is loading the dataset in memory", and execute none. An empty
// message turns that off.
func (m *Master) Fail(message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = message
}

// Cut cuts all connections, once: requests that the master has not executed are
// lost, frozen or not. Dials work at once.
func (m *Master) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutLocked()
}

// HangDials makes dials wait, as those to an unreachable host do, until
// ResumeDials or until their context ends. Connections that exist go on. Faults
// come on top of each other: a dial of a stopped master is refused only after
// ResumeDials.
func (m *Master) HangDials() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung == nil {
		m.hung = make(chan struct{})
	}
}

// ResumeDials lets dials go on, those that wait and those to come.
func (m *Master) ResumeDials() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung != nil {
		close(m.hung)
		m.hung = nil
	}
}

// greeting is the first command of every connection, put there by connectLocked
// and taken out by hook: it tells the hook which connection a peer is. No client
// can send it as the first.
const greeting = "REDLOCKTEST.CONNECTION"

// connectLocked makes a connection to the running master and returns the
// client's end.
func (m *Master) connectLocked() *conn {
	client, srv := newConn(m.name, &m.delay)
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

// cutLinkLocked cuts one connection; nothing of it is executed from here on.
func (m *Master) cutLinkLocked(l *link) {
	if m.links[l.id] != l {
		return // it was cut before
	}
	delete(m.links, l.id)
	close(l.dead)
	l.conn.cut()
}

// hook is called by miniredis before each command, on the goroutine of its
// connection. It returns true if the command shall not be executed.
func (m *Master) hook(p *server.Peer, command string, args ...string) bool {
	m.mu.Lock()
	l := m.peers[p]
	if l == nil {
		defer m.mu.Unlock()
		return m.welcomeLocked(p, command, args)
	}
	for m.frozen != nil {
		thawed := m.frozen
		m.mu.Unlock()
		select {
		case <-thawed:
		case <-l.dead:
		}
		m.mu.Lock()
		if isClosed(l.dead) {
			break // else a cut connection's goroutine would spin until the thaw
		}
	}
	defer m.mu.Unlock()
	switch {
	case isClosed(l.dead):
		// miniredis had read this before the cut.
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
	m.log = append(m.log, line(command, args))
	return false
}

// welcomeLocked handles a command of a peer that is no connection's, or not yet.
func (m *Master) welcomeLocked(p *server.Peer, command string, args []string) bool {
	if command != greeting || len(args) != 1 {
		// A command that a script calls, through a peer made for it: part of
		// its script, so no fault of its own and nothing to count.
		return false
	}
	l := m.links[args[0]]
	if l == nil {
		// Cut before it began. A link of its own, dead from birth, keeps what
		// miniredis has read from passing as a script's.
		l = &link{dead: make(chan struct{})}
		close(l.dead)
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

// line returns the command as Commands reports it.
func line(command string, args []string) string {
	var b strings.Builder
	b.WriteString(command)
	for _, a := range args {
		b.WriteByte(' ')
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			a = strconv.Quote(a)
		}
		b.WriteString(a)
	}
	return b.String()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
