package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// tokenOf returns the token of a client in a queueScene: its name in capitals.
func tokenOf(client string) string {
	return strings.ToUpper(client)
}

// A queueScene is a scene of clients that queue for the key "k".
type queueScene struct {
	*scene
	run   string                   // the server's run_id
	inbox map[string]func() string // by client, its messages
	nexts []string                 // the tokens that messages about grants name as the next heads: told checks the rest of these
	nears []string                 // the clients that were told that they are near: told and nobodyTold pass over that
}

// newQueueScene makes a scene in which these clients have a subscription.
func newQueueScene(t *testing.T, dial func() redis.Conn, there ...string) *queueScene {
	t.Helper()
	s := &queueScene{scene: newScene(t, dial), inbox: make(map[string]func() string)}
	info, err := redis.String(s.conn.Do("INFO", "server"))
	if err != nil {
		t.Fatal(err)
	}
	s.run = InfoField(info, "run_id")
	for _, client := range there {
		s.inbox[client] = listen(t, dial(), client)
	}
	return s
}

// reset removes all keys, and puts members in the queue, the first one at its head. Their clients are live.
func (s *queueScene) reset(members ...string) {
	s.Helper()
	s.must("FLUSHALL")
	for i, m := range members {
		s.must("ZADD", "redlock:queue:k", i+1, m)
		client, _, _ := strings.Cut(m, " ")
		s.must("SET", "redlock:waiter:"+client, "99999999999999 0")
	}
}

func (s *queueScene) must(command string, args ...any) any {
	s.Helper()
	reply, err := s.conn.Do(command, args...)
	if err != nil {
		s.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

// four is the wanted answer to an acquisition of a claim, without the place in the queue.
type four struct {
	n        int // below: a refusal with the remaining time; held: the key holds the token
	fence    int64
	standing string
	isNew    int64
}

// held means that the key has held the token before, and for how long.
const held = 1000

func (w four) String() string { return fmt.Sprintf("[%d %d %q %d]", w.n, w.fence, w.standing, w.isNew) }

func (w four) matches(got any) bool {
	list, _ := got.([]any)
	if len(list) != 5 {
		return false
	}
	if ahead, ok := list[4].(int64); !ok || ahead < 0 {
		return false
	}
	n, _ := list[0].(int64)
	standing, _ := list[2].([]byte)
	switch w.n {
	case below:
		far := list[4].(int64) >= Near // it is not told for how long
		if n > -1 || (n == -1) != far {
			return false
		}
	case held:
		if n < 3 {
			return false
		}
	default:
		if n != int64(w.n) {
			return false
		}
	}
	return list[1] == w.fence && string(standing) == w.standing && list[3] == w.isNew
}

// as sends a command of batch.lua for a client, and checks its answer. want is as for do, or a four.
func (s *queueScene) as(client, word string, want any) {
	s.Helper()
	got, err := s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", client, word, tokenOf(client))
	if err != nil {
		got = err
	}
	s.answered(client, word, got, want)
}

// answered checks the answer to a command of a client.
func (s *queueScene) answered(client, word string, got, want any) {
	s.Helper()
	if w, ok := want.(four); ok && w.matches(got) || !ok && asWanted(got, want) {
		return
	}
	if list, ok := got.([]any); ok && len(list) == 5 {
		got = fmt.Sprintf("[%v %v %q %v %v]", list...)
	}
	s.Errorf("%s: %s: answered %v, want %v", client, word, got, want)
}

// queue checks the members of the queue.
func (s *queueScene) queue(want ...string) {
	s.Helper()
	if got, _ := redis.Strings(s.must("ZRANGE", "redlock:queue:k", 0, -1), nil); !slices.Equal(got, want) {
		s.Errorf("the queue is %q, want %q", got, want)
	}
}

// holds checks what the key holds: "" for no key.
func (s *queueScene) holds(want string) {
	s.Helper()
	if got, _ := redis.String(s.conn.Do("GET", "k")); got != want {
		s.Errorf("the key holds %q, want %q", got, want)
	}
}

// told checks the next message to a client.
func (s *queueScene) told(client, want string) {
	s.Helper()
	got := s.inbox[client]()
	for ; strings.HasPrefix(got, string(IsNear)); got = s.inbox[client]() {
		s.nears = append(s.nears, client)
	}
	if g, ok := ParseGrant(got); ok && g.Next != "" {
		s.nexts = append(s.nexts, g.Next)
		got = strings.Replace(got, "/"+g.Next, "", 1)
	}
	if got != want {
		s.Errorf("%s was told %q, want %q", client, got, want)
	}
}

// nobodyTold checks that there are no more messages.
func (s *queueScene) nobodyTold() {
	s.Helper()
	for client := range s.inbox {
		s.must("PUBLISH", WakeChannel+client, "the last")
		s.told(client, "the last")
	}
}

// A call is one command on a key and its queue, with what it leaves.
type call struct {
	name  string
	key   string   // the token that the key holds before; "": there is no key
	queue []string // the members before
	word  string
	want  any      // the answer, as for queueScene.as
	holds string   // the token that the key holds afterwards
	left  []string // the members afterwards
	told  []string // the client that gets a message, and the message; nil: nobody does
}

// silence has these clients be silent.
func (s *queueScene) silence(clients ...string) {
	s.Helper()
	for _, client := range clients {
		s.must("SET", "redlock:waiter:"+client, "1000 0")
	}
}

// by returns a test of the call by a client, while some clients have a subscription.
func (c call) by(client string, there ...string) func(*testing.T, func() redis.Conn) {
	return c.beside(nil, client, there...)
}

// beside is by, beside clients that are silent.
func (c call) beside(silent []string, client string, there ...string) func(*testing.T, func() redis.Conn) {
	return func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, there...)
		s.reset(c.queue...)
		s.silence(silent...)
		if c.key != "" {
			s.must("SET", "k", c.key, "PX", 60_000)
		}
		s.as(client, c.word, c.want)
		s.queue(c.left...)
		s.holds(c.holds)
		if c.told != nil {
			s.told(c.told[0], strings.ReplaceAll(c.told[1], "$run", s.run))
		}
		s.nobodyTold()
	}
}
