package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// A subscriber keeps a subscription to the client's channel, on a connection of its own. A grant that
// comes on it is a vote: see grant.go. All other messages are hints: a claim that misses one finds out by its next poll.
//
// An address may lead to another server from one connection to the next, for example after a failover. Only the server
// that executes the commands publishes to the client. So a subscription must be at the server of the connection for commands,
// and ends if that connection is replaced by one to another server.
type subscriber struct {
	*Master
	marks *marks
}

// subscribe keeps the subscription until Close.
func (m *Master) subscribe() {
	l := subscriber{m, &marks{}}
	d := &dialer{cfg: &m.cfg, closing: m.closing, greet: l.greet, serve: l.serve, failed: l.failed}
	d.run()
}

// A subscription is that of a subscriber.
type subscription struct {
	run   string        // immutable; the run_id of its server; "": it does not tell
	links int           // immutable; Master.links when it was made
	moved chan struct{} // closed when commands go to another server

	hasty   bool         // immutable; the receiver cannot be interrupted, so it may not wait for longer than DialTimeout
	patient atomic.Bool  // the receiver waits for longer, since the client was calm when it began
	heard   atomic.Int64 // when something arrived last: a time.Duration since Master.began
}

// besideLocked reports whether a subscription is at the server of the last connection for commands. If a server does
// not tell its run_id, a subscription that is older than this connection may be elsewhere.
func (m *Master) besideLocked(s *subscription) bool {
	if s.run != "" && m.run != "" {
		return s.run == m.run
	}
	return s.links == m.links
}

// connectedLocked notes a new connection for commands, to the server with this run_id. It ends the subscription if that
// is elsewhere.
func (m *Master) connectedLocked(run string) {
	m.run = run
	m.links++
	m.contact++
	if s := m.subscription; s != nil && !m.besideLocked(s) {
		close(s.moved)
		m.subscribedLocked(nil)
	}
}

// subscribedLocked notes the subscription, or that there is none.
func (m *Master) subscribedLocked(s *subscription) {
	m.subscription = s
	m.contact++
}

// greet makes a connection ready: it returns when the server has confirmed the subscription.
func (l subscriber) greet(ctx context.Context, conn redis.Conn) (p peer, err error) {
	l.mu.Lock()
	p.links = l.links
	l.mu.Unlock()
	p.hasty = !redisconn.CanInterrupt(conn)
	conn.Send("INFO", sections[0])
	l.marks.begin(l.cfg.Servers.Client.Clock)
	conn.Send("SUBSCRIBE", wire.WakeChannel+l.cfg.ID, wire.ListChannel(len(l.cfg.Servers.Client.Names)))
	if err := conn.Flush(); err != nil {
		return p, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	info, first := redis.String(redisconn.Receive(ctx, conn))
	if first != nil && conn.Err() != nil {
		return p, fmt.Errorf("INFO: %w", first)
	}
	p.Run = wire.InfoField(info, "run_id") // a server that forbids the question can be used
	reply, err := redisconn.Receive(ctx, conn)
	if err == nil && pushKind(reply) != "subscribe" {
		err = errSubscription
	} else if conn.Err() != nil {
		err = endedBy(first, err)
	}
	if err != nil {
		return p, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	return p, nil
}

var (
	errSubscription = errors.New("unexpected reply to a subscription")
	errUnsubscribed = errors.New("the server has ended the subscription")
	errElsewhere    = errors.New("the address leads to another server than that of the connection for commands")
)

// pushKind returns the kind of what a subscriber receives, such as message; empty for anything else.
func pushKind(reply any) string {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return ""
	}
	kind, _ := redis.String(parts[0], nil)
	return kind
}

// serve uses a subscription until its connection fails, commands go to another server, or the Master is closed.
func (l subscriber) serve(conn redis.Conn, p peer) error {
	s := &subscription{run: p.Run, links: p.links, moved: make(chan struct{}), hasty: p.hasty}
	l.mu.Lock()
	connected := l.status.State == Up || l.status.State == Quarantined
	beside := !connected || l.besideLocked(s) // otherwise connectedLocked will compare them
	if beside {
		l.subscribedLocked(s)
	}
	l.mu.Unlock()
	if !beside {
		redisconn.Discard(conn)
		return errElsewhere
	}
	l.cfg.Listener.Up(l.cfg.Index)
	err := l.receive(conn, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscription != s {
		return errElsewhere
	}
	l.subscribedLocked(nil)
	return err
}

// calmPings is after how long a silent server is pinged on the subscription while the client is calm, in DialTimeouts. Its polls find out that the
// server is silent, and that it is near: the subscription only tells it so earlier.
const calmPings = 25

// receive reads messages until the connection fails or the subscription is ended. It pings a server that is silent; if nothing
// arrives for twice the time between pings, the connection has failed. A calm client waits for longer, as its pings are fewer: the
// receiver says so before it waits, so that no wait ends before a ping is due.
func (l subscriber) receive(conn redis.Conn, s *subscription) error {
	stop := make(chan struct{})
	pings := make(chan struct{})
	defer func() {
		close(stop)
		redisconn.Break(conn) // ends a ping that is stuck
		<-pings
		conn.Close()
	}()
	go func() {
		defer close(pings)
		l.ping(conn, s, stop)
	}()
	for {
		patience, calm := 2*l.seldom(s), !s.hasty && l.calm()
		if calm {
			patience += calmPings * l.cfg.DialTimeout
		}
		if s.patient.Swap(calm) && !calm {
			poke(l.pingOften) // a ping may be due by now
		}
		if left, closed := l.leftToClose(time.Now()); closed {
			patience = left
		}
		reply, err := redisconn.ReceiveWithin(conn, patience)
		if err != nil {
			return redisconn.Ended(err)
		}
		s.heard.Store(int64(time.Since(l.began)))
		switch pushKind(reply) {
		case "":
			return errSubscription
		case "unsubscribe": // ping may have asked for it
			return errUnsubscribed
		case "pong":
			l.marks.pong(reply.([]any))
		case "message":
			l.message(reply.([]any))
		}
	}
}

// PingEvery returns how often the server is pinged while a claim with this g is near: a grant counts from the last ping that was answered before it. Two
// pings are sent while a mark is young, but ten a second at most.
func PingEvery(g time.Duration) time.Duration { return max(100*time.Millisecond, wire.YoungFor(g)/2) }

// seldom returns after how long a silent server is pinged, unless a claim is near or the client is calm.
func (l subscriber) seldom(s *subscription) time.Duration {
	every := l.cfg.DialTimeout
	if s.hasty {
		every /= 2
	}
	return max(every, time.Millisecond)
}

// ping pings the server until stop, and unsubscribes when the Master is closed or commands go to another server. If the server does not confirm that within
// DialTimeout, ping interrupts the receiver.
func (l subscriber) ping(conn redis.Conn, s *subscription, stop <-chan struct{}) {
	seldom := l.seldom(s)
	last := time.Now()
	due := time.NewTimer(seldom)
	defer due.Stop()
	stood := time.NewTimer(steady)
	defer stood.Stop()
	for {
		command, args := "PING", []any(nil)
		select {
		case <-stop:
			return
		case <-stood.C:
			l.update(func() { l.deaf, l.status.WakeErr = time.Time{}, nil })
			continue
		case <-l.pingOften:
		case <-due.C:
		case <-l.closing:
			command = "UNSUBSCRIBE"
		case <-s.moved:
			command = "UNSUBSCRIBE"
		}
		most := seldom
		if s.patient.Load() {
			most = calmPings * l.cfg.DialTimeout
		}
		every := most
		left := most - min(time.Since(last), time.Since(l.began)-time.Duration(s.heard.Load()))
		if since, g, near := l.cfg.Listener.Waiting(l.cfg.Index); near {
			// A grant counts from a ping, or from the claim's registration. So where a lock is passed on fast, clients send no pings.
			every = min(every, PingEvery(g))
			left = min(left, every-min(time.Since(last), time.Since(since)))
		}
		if left > 0 && command == "PING" {
			due.Reset(left)
			continue
		}
		if command == "PING" {
			last = time.Now()
			due.Reset(every)
			args = []any{l.marks.ping(l.cfg.Servers.Client.Clock)}
		}
		if conn.Send(command, args...) != nil || conn.Flush() != nil {
			return
		}
		if command == "UNSUBSCRIBE" {
			left, closed := l.leftToClose(time.Now())
			if !closed {
				left = l.cfg.DialTimeout
			}
			select {
			case <-stop:
			case <-time.After(left):
				redisconn.Interrupt(conn)
			}
			return
		}
	}
}

// failed notes that the subscription has ended, or could not be had. It reports that at once if the user has no right to
// it, and otherwise once no subscription has stood for a while although the master is up. If the master is down, that is
// known by then.
func (l subscriber) failed(err error) {
	l.update(func() {
		now := time.Now()
		if l.deaf.IsZero() {
			l.deaf = now
		}
		denied := strings.Contains(err.Error(), "NOPERM")
		if l.status.State == Up && (denied || now.Sub(l.deaf) >= 2*heartbeat+l.cfg.DialTimeout) {
			l.status.WakeErr = redisconn.PrintableError(err)
		}
	})
}
