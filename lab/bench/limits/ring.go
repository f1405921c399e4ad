package main

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/wire"
	"github.com/redlock-go/redlock/lab/internal/measure"
)

// passOn is what a turn has to do at a master at least: the token of the holder becomes that of the next one, who is told so.
var passOn = redis.NewScript(1, "if (redis.call('GET', KEYS[1]) or ARGV[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', 10000) redis.call('PUBLISH', ARGV[3], ARGV[2]) return 1 end return 0")

// passToNext is what a release of redlock, and the registration behind it, have to do at a master at least: the same commands, answer and message, without
// rules. Nobody knows who is next: that is the head of the queue, and the holder joins it. It is called as the script of redlock is.
const passToNext = `
	local queue, id, old, new = 'redlock:queue:limits', ARGV[1], ARGV[3], ARGV[5]
	if redis.call('GET', KEYS[1]) ~= old or redis.call('EXISTS', queue, 'redlock:rqueue:limits') ~= 1 then return 0 end
	local front = redis.call('ZRANGE', queue, 0, 4, 'WITHSCORES')
	local client, token = string.match(front[1], '^(%S+) (%S+)')
	local now = redis.call('TIME')
	redis.call('ZREM', queue, front[1], id .. ' ' .. old .. ' 1000')
	redis.call('SET', KEYS[1], token, 'PX', 1000, 'XX')
	local age = redis.call('PTTL', 'redlock:incarnation')
	redis.call('PUBLISH', 'redlock:wake:' .. client, '+ ' .. token .. ' - ' .. age .. ' 0 ' .. KEYS[1])
	redis.call('ZADD', queue, 'NX', now[1] * 1000000 + now[2], id .. ' ' .. new .. ' 1000')
	return {2, {-1, 0, token, 1, 10}}`

// ring measures the least that turns of processes cost: each process knows who is next, so there is no queue, and no other command. A turn is
// one command and one message for each of five masters. A process enters by the messages of three of them, and holds the lock for 1 ms. The second
// row is the same with the commands of redlock, and the third with its script: no client can have more turns with these.
func ring(*options) error {
	const n, span = 16, 5 * time.Second
	table("processes", "turns/s", "fewest and most turns of a process", "longest wait", "CPU of all clients", "CPU of all masters")
	for _, role := range []string{"ring", "queue", "script"} {
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
	text  func(conn redis.Conn) (string, error) // of the script of a master, where there is a queue; nil: passOn, and no queue
	conns []redis.Conn                          // for commands, by master
	shas  []string                              // of the scripts, by master
	mine  string                                // who it is
	next  string                                // who is next, where there is no queue
	turns chan int64                            // a turn begins, by the message of one master; 0: the end
}

// joinRing is a member of a ring, joinQueue one that waits in queues, and joinScript one that uses the script of redlock.
func joinRing(o order, begin func() <-chan order) (report, error) {
	return (&member{next: name((o.Number + 1) % o.Of)}).join(o, begin)
}

func joinQueue(o order, begin func() <-chan order) (report, error) {
	return (&member{text: func(redis.Conn) (string, error) { return passToNext, nil }}).join(o, begin)
}

func joinScript(o order, begin func() <-chan order) (report, error) {
	return (&member{text: ownText}).join(o, begin)
}

// ownText returns the text of the script of redlock for the process that a connection leads to.
func ownText(conn redis.Conn) (string, error) {
	info, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		return "", err
	}
	return wire.OwnOf(wire.InfoField(info, "run_id")).Texts()[0], nil
}

func (w *member) join(o order, begin func() <-chan order) (r report, err error) {
	w.mine, w.turns = name(o.Number), make(chan int64, len(o.Addrs))
	for _, addr := range o.Addrs {
		if err := w.connect(addr, o.Number == 0); err != nil {
			return r, err
		}
	}
	end := begin()
	go func() {
		<-end
		w.turns <- 0
	}()
	if o.Number == 0 {
		time.Sleep(100 * time.Millisecond) // all others are ready
		if err := w.pass(1); err != nil {
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

// connect connects to a master, for commands and for messages. The first member holds the lock, and the others join the queue, if there is one.
func (w *member) connect(addr string, first bool) error {
	conn, err := dialDirect(addr)
	if err != nil {
		return err
	}
	w.conns = append(w.conns, conn)
	if w.text == nil {
		err = passOn.Load(conn)
	} else {
		err = w.prepare(conn, first)
	}
	if err != nil {
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
	if err := sub.Subscribe(wire.WakeChannel + w.mine); err != nil {
		return err
	}
	if err, failed := sub.Receive().(error); failed {
		return err
	}
	go func() {
		for {
			switch message := sub.Receive().(type) {
			case redis.Message:
				text := string(message.Data)
				if grant, is := wire.ParseGrant(text); is {
					_, text, _ = strings.Cut(grant.Token, "@")
				}
				if turn, err := strconv.ParseInt(text, 10, 64); err == nil {
					w.turns <- turn
				}
			case error:
				return
			}
		}
	}()
	return nil
}

// prepare loads the script of a master, and puts the lock or the queue there.
func (w *member) prepare(conn redis.Conn, first bool) error {
	text, err := w.text(conn)
	if err != nil {
		return err
	}
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", text))
	if err != nil {
		return err
	}
	w.shas = append(w.shas, sha)
	if _, err := conn.Do("SET", "redlock:incarnation", "limits", "PX", time.Hour.Milliseconds()); err != nil {
		return err
	}
	if first {
		_, err = conn.Do("SET", "limits", w.token(1))
	} else {
		_, err = conn.Do("ZADD", "redlock:queue:limits", time.Now().UnixMicro(), w.mine+" "+w.token(1)+" 1000")
	}
	return err
}

// token is that of a member with a queue in its turn.
func (w *member) token(turn int64) string { return w.mine + "@" + strconv.FormatInt(turn, 10) }

// pass begins the turn of the next one, behind this one.
func (w *member) pass(turn int64) error {
	for i, conn := range w.conns {
		var err error
		if w.text == nil {
			err = passOn.SendHash(conn, "limits", turn, turn+1, wire.WakeChannel+w.next)
		} else {
			err = conn.Send("EVALSHA", w.shas[i], 2, "limits", "limits",
				w.mine, "release 1000 - 0", w.token(turn), "register 10000 0 1000", w.token(turn+1))
		}
		if err := errors.Join(err, conn.Flush()); err != nil {
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

func name(i int) string { return "ring" + strconv.Itoa(i) }
