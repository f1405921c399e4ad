package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/internal/wire"
)

// scripts measures for how long a master executes the usual calls of batch.lua, by its own statistics. One client sends them, each
// when the one before is answered.
func scripts(*options) error {
	table("call of batch.lua", "time at a master, median of 9 times 500 calls", "least", "most")
	for _, v := range []struct {
		name string
		call func(*scriptScene)
	}{
		{"a registration, nobody waits", func(s *scriptScene) {
			s.send("SET", "other", s.token()) // the key is free again
			s.send("DEL", "k")
			s.batch("register 10000 0 10000", s.next())
		}},
		{"a release, nobody waits", func(s *scriptScene) {
			s.send("SET", "k", s.next())
			s.batch("release 10000 - 0", s.token())
		}},
		{"a release and the next registration, nobody waits", func(s *scriptScene) {
			s.send("SET", "k", s.next())
			s.batch("release 10000 - 0", s.token(), "register 10000 0 10000", s.next())
		}},
		{"a renewal", func(s *scriptScene) {
			s.send("SET", "k", s.token())
			s.batch("renew 10000", s.token())
		}},
		{"a registration, refused", func(s *scriptScene) {
			s.send("SET", "k", "another")
			s.batch("register 10000 0 400", s.next())
		}},
		{"a poll, refused", func(s *scriptScene) {
			s.send("SET", "k", "another")
			s.batch("again 400 0 400", s.token())
		}},
		{"a release, 16 wait", func(s *scriptScene) { s.turn("400") }},
		{"a release and the next registration, 16 wait", func(s *scriptScene) {
			s.turn("400", "register 10000 0 400")
		}},
		{"the same, with fences", func(s *scriptScene) {
			s.turn("400f", "register 10000 0 400f 7")
		}},
	} {
		if err := scriptTime(v.name, v.call); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

func scriptTime(name string, call func(*scriptScene)) error {
	server, err := redisserver.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	s, err := newScriptScene(server)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	var all []time.Duration
	for range 1 + 9 {
		s.send("DEL", "redlock:queue:k", "k")
		s.queue = nil
		s.send("CONFIG", "RESETSTAT")
		for range scriptCalls {
			call(s)
		}
		of, err := evalshaTime(s.conn)
		if s.err != nil || err != nil {
			return fmt.Errorf("%w %w", s.err, err)
		}
		all = append(all, of)
	}
	least, median, most := spread(all[1:]) // the first one fills caches
	us := func(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1000) }
	row(name, us(median), us(least), us(most))
	return nil
}

// evalshaTime returns for how long a server has executed a call of a script on average.
func evalshaTime(conn redis.Conn) (time.Duration, error) {
	info, err := redis.String(conn.Do("INFO", "commandstats"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:")
	var calls, usec int64
	if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d,", &calls, &usec); err != nil {
		return 0, err
	}
	return time.Duration(usec) * time.Microsecond / time.Duration(calls), nil
}

// A scriptScene is a server with a lock "k", and clients that stand in its queue.
type scriptScene struct {
	conn  redis.Conn
	sha   string
	n     int      // how many tokens were made
	queue []string // the claims that wait, and the one that holds the lock in front of them: client and token
	err   error    // the first one
}

func newScriptScene(server *redisserver.Server) (*scriptScene, error) {
	if err := server.Adopt(); err != nil {
		return nil, err
	}
	conn, err := redis.Dial("tcp", server.Addr())
	if err != nil {
		return nil, err
	}
	s := &scriptScene{conn: conn}
	info, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		return nil, err
	}
	_, run, _ := strings.Cut(info, "run_id:")
	s.sha, err = redis.String(conn.Do("SCRIPT", "LOAD", wire.OwnOf(run[:40]).Texts()[0]))
	if err != nil {
		return nil, err
	}
	listener, err := redis.Dial("tcp", server.Addr())
	if err != nil {
		return nil, err
	}
	sub := redis.PubSubConn{Conn: listener}
	for i := range 17 {
		sub.Subscribe(wire.WakeChannel + scriptClient(i))
	}
	go func() {
		for listener.Err() == nil { // until the server is stopped
			sub.Receive()
		}
	}()
	return s, nil
}

func scriptClient(i int) string { return fmt.Sprintf("%028d@host/12345", i) }

func (s *scriptScene) token() string { return fmt.Sprintf("%027d@host/12345", s.n) }

func (s *scriptScene) next() string {
	s.n++
	return s.token()
}

func (s *scriptScene) send(command string, args ...any) {
	if _, err := s.conn.Do(command, args...); err != nil && s.err == nil {
		s.err = err
	}
}

// batch sends a call for "k": words and tokens.
func (s *scriptScene) batch(wordsAndTokens ...any) { s.as(scriptClient(0), wordsAndTokens...) }

func (s *scriptScene) as(client string, wordsAndTokens ...any) {
	n := len(wordsAndTokens) / 2
	args := []any{s.sha, n}
	for range n {
		args = append(args, "k")
	}
	args = append(append(args, client), wordsAndTokens...)
	if strings.HasPrefix(fmt.Sprint(wordsAndTokens[0]), "again") {
		args = append(args, 3, 1000, 0)
	}
	s.send("EVALSHA", args...)
}

// turn has the holder release the lock to the head of the queue, and queue again with the second word, or by a member that
// this adds.
func (s *scriptScene) turn(g string, register ...string) {
	for i := len(s.queue); i < 17; i++ {
		s.queue = append(s.queue, fmt.Sprint(scriptClient(i), " ", s.next()))
		client, token, _ := strings.Cut(s.queue[i], " ")
		if i == 0 {
			s.send("SET", "k", token)
		} else {
			s.send("ZADD", "redlock:queue:k", time.Now().UnixMicro(), client+" "+token+" "+g)
		}
	}
	client, token, _ := strings.Cut(s.queue[0], " ")
	again := client + " " + s.next()
	s.queue = append(s.queue[1:], again)
	args := []any{"release " + g + " - 0", token}
	if len(register) > 0 {
		s.as(client, append(args, register[0], s.token())...)
		return
	}
	s.as(client, args...)
	s.send("ZADD", "redlock:queue:k", time.Now().UnixMicro(), again+" "+g)
}

var scriptCalls = 500
