package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// dialling returns a function that connects to a server. The connections end with the test.
func dialling(t *testing.T, address string) func() redis.Conn {
	return func() redis.Conn {
		conn, err := redis.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

// onServer runs f on a real server. Scripts may touch no keys but those of besides.
func onServer(t *testing.T, f func(t *testing.T, dial func() redis.Conn)) {
	address := redisserver.StartTB(t, 1)[0].Addr()
	watchKeys(t, address)
	f(t, dialling(t, address))
}

// onBoth runs f on a real server, as onServer does, and on miniredis.
func onBoth(t *testing.T, f func(t *testing.T, dial func() redis.Conn)) {
	t.Run("redis-server", func(t *testing.T) { onServer(t, f) })
	t.Run("miniredis", func(t *testing.T) { f(t, dialling(t, startMiniredis(t).Addr())) })
}

// onBothUnwatched is onBoth for thousands of commands, whose keys it takes seconds to look at. It looks at none.
func onBothUnwatched(t *testing.T, f func(t *testing.T, dial func() redis.Conn)) {
	t.Run("redis-server", func(t *testing.T) { f(t, dialling(t, redisserver.StartTB(t, 1)[0].Addr())) })
	t.Run("miniredis", func(t *testing.T) { f(t, dialling(t, startMiniredis(t).Addr())) })
}

// needsLongIntegers skips a test whose scripts return fences by way of miniredis, which returns an int.
func needsLongIntegers(t *testing.T) {
	t.Helper()
	if strconv.IntSize == 32 {
		t.Skip("an int of miniredis is too short for a fence")
	}
}

// startMiniredis returns a miniredis whose time stands still: a busy machine can take long for a script.
func startMiniredis(t *testing.T) *miniredis.Miniredis {
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	m.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
		if command == "INFO" { // which it does not know
			p.WriteBulk("# Server\r\nrun_id:" + strings.Repeat("1", 40) + "\r\n")
		}
		return command == "INFO"
	})
	return m
}

// A scene runs the commands of several clients on one key, "k".
type scene struct {
	*testing.T
	conn    redis.Conn
	bundled bool              // together collects the checks of the replies
	checks  []func(reply any) // those that were collected
}

func newScene(t *testing.T, dial func() redis.Conn) *scene {
	t.Helper()
	s := &scene{T: t, conn: dial()}
	if _, err := s.conn.Do("SCRIPT", "LOAD", batchLua.text()); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a command, and checks its reply.
func (s *scene) ask(check func(reply any), command string, args ...any) {
	s.Helper()
	if s.bundled {
		s.conn.Send(command, args...)
		s.checks = append(s.checks, check)
		return
	}
	reply, err := s.conn.Do(command, args...)
	if err != nil {
		reply = err
	}
	check(reply)
}

// together runs the commands of f in one transaction. For tests of announcements and turns, which end by themselves
// after some 100 ms.
func (s *scene) together(f func()) {
	s.Helper()
	s.conn.Send("MULTI")
	s.bundled, s.checks = true, nil
	f()
	s.bundled = false
	replies, err := redis.Values(s.conn.Do("EXEC"))
	if err != nil || len(replies) != len(s.checks) {
		s.Fatalf("%d replies to %d commands: %v", len(replies), len(s.checks), err)
	}
	for i, check := range s.checks {
		check(replies[i])
	}
}

// do sends one command of a client, and checks its answer. A client's token is its name in capitals.
func (s *scene) do(client, word string, want any) {
	s.Helper()
	s.ask(func(got any) {
		s.Helper()
		if !asWanted(got, want) {
			s.Errorf("%s: %s: answered %v, want %v", client, word, got, want)
		}
	}, "EVALSHA", batchLua.sha(), 1, "k", client, word, strings.ToUpper(client))
}

// asWanted reports whether the answer to a command is the wanted one. A string is the beginning of an error.
func asWanted(got, want any) bool {
	switch want := want.(type) {
	case int:
		if list, _ := got.([]any); want == byReaders && len(list) >= 4 {
			n, ok := list[0].(int64)
			return ok && n < -1 && reflect.DeepEqual(list[2], []byte(ReadersMarker))
		}
		n, ok := got.(int64)
		return ok && (n == int64(want) || want == below && n < -1)
	case string:
		err, ok := got.(error)
		return ok && strings.HasPrefix(err.Error(), want)
	}
	return reflect.DeepEqual(got, want)
}

// below means a refusal that contains the remaining time of the key.
const below = -1000

// byReaders means a refusal because of readers, that contains the remaining time of the key.
const byReaders = -2000

// key checks what the key holds, and for how long.
func (s *scene) key(want string, least, most time.Duration) {
	s.Helper()
	s.ask(func(reply any) {
		s.Helper()
		if got, _ := redis.String(reply, nil); got != want {
			s.Errorf("the key holds %q, want %q", got, want)
		}
	}, "GET", "k")
	if want != "" {
		s.lives("k", least, most)
	}
}

// lives checks how long a key will live.
func (s *scene) lives(key string, least, most time.Duration) {
	s.Helper()
	s.ask(func(reply any) {
		s.Helper()
		left, err := redis.Int64(reply, nil)
		if d := time.Duration(left) * time.Millisecond; err != nil || d > most || d < least {
			s.Errorf("%s lives for %v, want %v to %v (%v)", key, d, least, most, err)
		}
	}, "PTTL", key)
}

// expire makes a reader's time run out.
func (s *scene) expire(client string) {
	s.Helper()
	if n, err := redis.Int(s.conn.Do("ZADD", "redlock:readers:k", "XX", "CH", 1, client+" "+strings.ToUpper(client))); err != nil || n != 1 {
		s.Fatalf("%s is no reader: %v", client, err)
	}
}

// listen subscribes a client to its channel, and returns a function that receives a message.
func listen(t *testing.T, conn redis.Conn, client string) func() string {
	t.Helper()
	sub := redis.PubSubConn{Conn: conn}
	if err := sub.Subscribe(WakeChannel + client); err != nil {
		t.Fatal(err)
	}
	sub.ReceiveWithTimeout(5 * time.Second) // it is confirmed
	return func() string {
		switch v := sub.ReceiveWithTimeout(5 * time.Second).(type) {
		case redis.Message:
			return string(v.Data)
		default:
			return fmt.Sprint(v)
		}
	}
}
