package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// wakeChannel is where a client listens for wake-ups: its id follows.
const wakeChannel = "redlock:wake:"

// listen keeps a subscription to the client's own channel, on a connection of
// its own, until Close. It is only a hint that comes this way: without it a
// waiter finds out one step of its schedule later.
func (m *Master) listen() {
	redial := m.cfg.Redial()
	d := &dialer{m: m, greet: m.subscribe}
	defer d.await()
	for {
		conn, _, err := d.connect()
		if err == nil {
			began := time.Now()
			m.hearing(true, nil)
			err = m.hear(conn)
			discard(conn)
			if time.Since(began) >= steady {
				redial = m.cfg.Redial()
			}
		}
		if m.isClosed() {
			return
		}
		m.hearing(false, err)
		if !m.pause(redial.NextBackOff()) {
			return
		}
	}
}

// subscribe makes a connection ready: it returns when the server has confirmed.
func (m *Master) subscribe(ctx context.Context, conn redis.Conn) (peer, error) {
	if err := canTimeOut(conn); err != nil {
		return peer{}, err
	}
	conn.Send("SUBSCRIBE", wakeChannel+m.cfg.ID)
	if err := conn.Flush(); err != nil {
		return peer{}, err
	}
	_, err := receive(ctx, conn)
	if err != nil {
		return peer{}, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	return peer{}, nil
}

// hearing notes whether the subscription stands. It tells if it cannot be had for
// a while from a master that is up: by then it would be known to be down.
func (m *Master) hearing(stands bool, err error) {
	now := time.Now()
	m.mu.Lock()
	m.listening = stands
	switch {
	case stands:
		m.deaf = time.Time{}
	case m.deaf.IsZero():
		m.deaf = now
		fallthrough
	case m.status.State != Up || now.Sub(m.deaf) < 2*heartbeat+m.cfg.DialTimeout:
		m.mu.Unlock()
		return
	}
	changed := (m.status.WakeErr == nil) != (err == nil)
	m.status.WakeErr = err
	if changed {
		m.news = append(m.news, change{m.status.State, m.status})
	}
	m.mu.Unlock()
	m.tell()
}

// hear reads wake-ups until the connection fails or the master is closed. The
// server is pinged, so that a connection which only seems to stand is found:
// nothing heard for DialTimeout is the end.
func (m *Master) hear(conn redis.Conn) error {
	stop := make(chan struct{})
	pings := make(chan struct{})
	defer func() {
		close(stop)
		sever(conn) // frees a ping that is stuck
		<-pings
	}()
	go func() {
		defer close(pings)
		m.ping(conn, stop)
	}()
	for {
		reply, err := receiveWithin(conn, m.cfg.DialTimeout)
		if err != nil {
			return noReply(err)
		}
		parts, _ := redis.Values(reply, nil)
		if len(parts) == 0 {
			return errors.New("unexpected reply to a subscription")
		}
		switch kind, _ := redis.String(parts[0], nil); {
		case kind == "unsubscribe":
			return errStopped
		case kind == "message" && len(parts) == 3:
			text, _ := redis.String(parts[2], nil)
			if token, key, ok := strings.Cut(text, " "); ok {
				m.cfg.Woken(m.cfg.Index, key, token)
			}
		}
	}
}

// ping asks for signs of life until stop, and for the end when the master is
// closed.
func (m *Master) ping(conn redis.Conn, stop <-chan struct{}) {
	tick := time.NewTicker(max(m.cfg.DialTimeout/2, time.Millisecond))
	defer tick.Stop()
	for {
		command := "PING"
		select {
		case <-stop:
			return
		case <-tick.C:
		case <-m.closing:
			command = "UNSUBSCRIBE"
		}
		if conn.Send(command) != nil || conn.Flush() != nil || command == "UNSUBSCRIBE" {
			return
		}
	}
}
