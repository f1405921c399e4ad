package main

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/measure"
)

// passOn is what a turn has to do at a master at least: the token of the holder becomes that of the next one, who is told so.
var passOn = redis.NewScript(1, "if redis.call('GET', KEYS[1]) == ARGV[1] or ARGV[1] == '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', 10000) redis.call('PUBLISH', ARGV[3], ARGV[2]) return 1 end return 0")

// passToNext is what a release of redlock has to do at a master at least, and the registration behind it: its commands, and nothing else. Nobody knows
// who is next: that is the first in a queue, and the holder comes last.
var passToNext = redis.NewScript(4, `
	if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('EXISTS', KEYS[2], KEYS[3]) ~= 1 then return 0 end
	local first = redis.call('ZRANGE', KEYS[2], 0, 4, 'WITHSCORES')
	local now = redis.call('TIME')
	redis.call('ZREM', KEYS[2], first[1], ARGV[1])
	redis.call('SET', KEYS[1], first[1], 'PX', 10000, 'XX')
	local age = redis.call('PTTL', KEYS[4])
	redis.call('PUBLISH', string.match(first[1], '^%S+'), first[1])
	redis.call('ZADD', KEYS[2], 'NX', now[1] * 1000000 + now[2], ARGV[2])
	return {2, {-1, 0, first[1], 1, 10}}`)

// ring measures the least that turns of processes cost: each process knows who is next, so there is no queue, and no other command. A turn is
// one command and one message for each of five masters. A process enters by the messages of three of them, and holds the lock for 1 ms. The second
// row is the same with the commands of redlock: no client can have more turns with these.
func ring(*options) error {
	const n, span = 16, 5 * time.Second
	table("processes", "turns/s", "fewest and most turns of a process", "longest wait", "CPU of all clients", "CPU of all masters")
	for _, role := range []string{"ring", "queue"} {
		f, err := start(5)
		if err != nil {
			return err
		}
		err = contend(role, f, n, span)
		f.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// A member is a worker of a ring.
type member struct {
	conns []redis.Conn // for commands, by master
	mine  string       // its channel
	next  string       // the channel of the next one; "": there is a queue
	turns chan int64   // a turn begins, by the message of one master; 0: the end
}

// joinRing is a member of a ring, and joinQueue one that waits in a queue.
func joinRing(o order, begin func() <-chan order) (report, error) {
	return (&member{next: channel((o.Number + 1) % o.Of)}).join(o, begin)
}

func joinQueue(o order, begin func() <-chan order) (report, error) {
	return (&member{}).join(o, begin)
}

func (w *member) join(o order, begin func() <-chan order) (r report, err error) {
	w.mine, w.turns = channel(o.Number), make(chan int64, len(o.Addrs))
	for _, addr := range o.Addrs {
		if err := w.connect(addr, w.mine); err != nil {
			return r, err
		}
	}
	first := int64(0)
	if w.next == "" {
		first = 1
		command := []any{"ZADD", "limits:queue", o.Number, w.token(1)}
		if o.Number == 0 {
			command = []any{"SET", "limits", w.token(1)}
		}
		for _, conn := range w.conns {
			if err := errors.Join(conn.Send(command[0].(string), command[1:]...), conn.Flush()); err != nil {
				return r, err
			}
		}
	}
	end := begin()
	go func() {
		<-end
		w.turns <- 0
	}()
	if o.Number == 0 {
		time.Sleep(100 * time.Millisecond) // all others are ready
		if err := w.pass(first); err != nil {
			return r, err
		}
	}
	return w.takeTurns()
}

// dialDirect connects as a Client does, so that reads and writes cost what they cost a Client.
func dialDirect(addr string) (redis.Conn, error) {
	return redis.Dial("tcp", addr, redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err != nil {
			return nil, err
		}
		return redlock.BoundReplies(conn), nil
	}))
}

// connect connects to a master, for commands and for the messages of a channel.
func (w *member) connect(addr, channel string) error {
	conn, err := dialDirect(addr)
	if err != nil {
		return err
	}
	w.conns = append(w.conns, conn)
	if err := errors.Join(passOn.Load(conn), passToNext.Load(conn)); err != nil {
		return err
	}
	go func() {
		for conn.Err() == nil {
			conn.Receive() // the answers to pass
		}
	}()
	told, err := dialDirect(addr)
	if err != nil {
		return err
	}
	sub := redis.PubSubConn{Conn: told}
	if err := sub.Subscribe(channel); err != nil {
		return err
	}
	if err, failed := sub.Receive().(error); failed {
		return err
	}
	go func() {
		for {
			switch message := sub.Receive().(type) {
			case redis.Message:
				turn, _ := strconv.ParseInt(strings.TrimPrefix(string(message.Data), w.mine+" "), 10, 64)
				w.turns <- turn
			case error:
				return
			}
		}
	}()
	return nil
}

// token is that of a member of a queue in its turn.
func (w *member) token(turn int64) string { return w.mine + " " + strconv.FormatInt(turn, 10) }

// pass begins the turn of the next one, behind this one; 0: the first turn.
func (w *member) pass(turn int64) error {
	if w.next == "" {
		for _, conn := range w.conns {
			if err := errors.Join(passToNext.SendHash(conn, "limits", "limits:queue", "limits:readers", "limits:age", w.token(turn), w.token(turn+1)), conn.Flush()); err != nil {
				return err
			}
		}
		return nil
	}
	mine := strconv.FormatInt(turn, 10)
	if turn == 0 {
		mine = ""
	}
	for _, conn := range w.conns {
		if err := errors.Join(passOn.SendHash(conn, "limits", mine, turn+1, w.next), conn.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// takeTurns takes the lock when a majority of masters has said so, and passes it on, until the end.
func (w *member) takeTurns() (r report, err error) {
	heard, locks, longest := map[int64]int{}, 0, time.Duration(0)
	used, left := measure.CPU(), time.Now()
	for turn := range w.turns {
		if turn == 0 {
			break
		}
		if heard[turn]++; heard[turn] != len(w.conns)/2+1 {
			continue
		}
		longest = max(longest, time.Since(left))
		time.Sleep(time.Millisecond)
		if err := w.pass(turn); err != nil {
			return r, err
		}
		locks, left = locks+1, time.Now()
	}
	return report{Locks: locks, Longest: longest, CPU: measure.CPU() - used}, nil
}

func channel(i int) string { return "ring:" + strconv.Itoa(i) }
