package master

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
)

// A dialer keeps one connection, until it is closed. It has one dial under way at a time.
type dialer struct {
	cfg     *Config         // immutable
	closing <-chan struct{} // closed to end run
	hurry   <-chan struct{} // receives from Master.Hurry; nil: nothing shortens a pause
	// greet makes a new connection ready for serve.
	greet func(context.Context, redis.Conn) (peer, error)
	// serve uses a connection until it ends, and says why it did.
	serve func(redis.Conn, peer) error
	// failed reports why there is no connection.
	failed func(error)

	pending chan dialled // cap 1: receives the result of the dial under way; nil: there is none
}

// A dialled is the result of a dial.
type dialled struct {
	conn redis.Conn
	peer peer
	err  error
}

// steady is how long a connection must have lasted for the next dial to begin a new schedule. A server
// that ends connections at once is not dialled at once.
const steady = time.Second

// run dials, serves the connection, waits, and dials again, until closing.
func (d *dialer) run() {
	defer d.await()
	redial := d.cfg.Listener.Redial()
	for {
		conn, p, err := d.connect()
		if err == nil {
			began := time.Now()
			err = d.serve(conn, p)
			if time.Since(began) >= steady {
				redial = d.cfg.Listener.Redial()
			}
		}
		select {
		case <-d.closing:
			return
		default:
		}
		d.failed(err)
		spread := guard.RedialAfter(err)
		if !d.pause(redial.NextBackOff()+spread, d.cfg.NodeTimeout+spread) {
			return
		}
	}
}

// pause waits, and reports false if closing has ended it. If there is a hurry, it does not wait for longer than hurried.
func (d *dialer) pause(wait, hurried time.Duration) bool {
	began, hurry := time.Now(), d.hurry
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-hurry:
			hurry = nil
			if hurried < wait {
				t.Reset(hurried - time.Since(began))
			}
		case <-d.closing:
			return false
		}
	}
}

// connect borrows a connection and greets it, within DialTimeout. Both happen in a goroutine of their
// own, since a pool's Dial may ignore its context. The next connect waits for that goroutine instead
// of starting another, which would hang as well.
func (d *dialer) connect() (redis.Conn, peer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.DialTimeout)
	defer cancel()
	if d.pending == nil {
		results := make(chan dialled, 1)
		d.pending = results
		go func() { results <- d.dial(ctx) }()
	}
	select {
	case r := <-d.pending:
		d.pending = nil
		return r.conn, r.peer, d.errorOf(r.err)
	case <-ctx.Done():
		return nil, peer{}, d.errorOf(ctx.Err())
	case <-d.closing:
		cancel()
	}
	d.await()
	return nil, peer{}, ErrClosed
}

func (d *dialer) dial(ctx context.Context) (r dialled) {
	if r.conn, r.err = borrow(ctx, d.cfg.Pool); r.err != nil {
		return r
	}
	if r.err = redisconn.Check(r.conn); r.err != nil {
		return r
	}
	if r.peer, r.err = d.greet(ctx, r.conn); r.err != nil {
		redisconn.Discard(r.conn)
	}
	return r
}

// endedBy returns the reason why a connection has ended with err after the first reply. A server that has no place for a client, or accepts none
// from its address, says so by an error in the place of that reply, and closes the connection.
func endedBy(first, err error) error {
	if redisconn.IsReply(first) && !redisconn.IsTimeout(err) {
		return first
	}
	return err
}

// await waits for the dial under way, if there is one, and discards the connection.
func (d *dialer) await() {
	if d.pending == nil {
		return
	}
	if r := <-d.pending; r.err == nil {
		redisconn.Discard(r.conn)
	}
	d.pending = nil
}

// errorOf words a failure to connect.
func (d *dialer) errorOf(err error) error {
	if redisconn.IsTimeout(err) {
		err = &remedy.LateError{Within: d.cfg.DialTimeout}
	}
	return remedy.With(err)
}

// borrow takes a connection from the pool. If a pool with Wait is closed while ctx ends, redigo's
// GetContext panics with a send on a closed channel.
func borrow(ctx context.Context, pool *redis.Pool) (conn redis.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			if !pool.Wait {
				panic(p)
			}
			conn, err = nil, errors.New("the pool is closed")
		}
	}()
	conn, err = pool.GetContext(ctx)
	if err != nil {
		return nil, err // this conn only repeats err
	}
	return conn, nil
}
