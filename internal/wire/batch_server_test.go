package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// A batch shares commands among its releases. Each member must be answered, and each key and queue be
// left, as if it had been sent alone, whatever the rights of the client.
func TestABatchAnswersAsItsMembersWouldAlone(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	admin := dialAs(t, server)
	listener := redis.PubSubConn{Conn: dialAs(t, server)}
	if err := listener.Subscribe(WakeChannel + "there"); err != nil {
		t.Fatal(err)
	}
	listener.Receive() // it is confirmed
	for _, row := range []struct {
		name  string
		rules []any
	}{
		{"all rights", []any{"~*"}},
		{"MGET is forbidden", []any{"~*", "-mget"}},
		{"DEL is forbidden", []any{"~*", "-del"}},
		{"SET is forbidden", []any{"~*", "-set"}},
		{"EXISTS is forbidden", []any{"~*", "-exists"}},
		{"queues are forbidden", []any{"~?:*"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			rules := append([]any{"SETUSER", "shop", "reset", "on", "nopass", "+@all", "&*"}, row.rules...)
			if _, err := admin.Do("ACL", rules...); err != nil {
				t.Fatal(err)
			}
			user := dialAs(t, server)
			if _, err := user.Do("AUTH", "shop", "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Do("SCRIPT", "LOAD", batchLua.text()); err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(300) {
				var differs string
				for range 3 { // on a busy machine, a client may become silent between the two executions
					if differs = compareBatch(t, admin, user, rand.New(rand.NewPCG(seed, 0)), row.name != "DEL is forbidden"); differs == "" {
						break
					}
				}
				if differs != "" {
					t.Fatalf("seed %d, three times: %s", seed, differs)
				}
			}
		})
	}
}

func dialAs(t *testing.T, s *redisserver.Server) redis.Conn {
	t.Helper()
	conn, err := redis.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// compareBatch executes the same commands on the same keys one by one, under a:, and as a batch, under b:. It returns how the results
// differ, or "".
//
// Without the right to DEL a release fails alone, but not together with the acquisition that follows, which
// replaces the token. That of a claim does not fail alone, but in a batch: alone it sets the key to the token of the next holder. Then follows is
// false, and no such acquisition or release is sent.
func compareBatch(t *testing.T, admin, user redis.Conn, random *rand.Rand, follows bool) (differs string) {
	t.Helper()
	if _, err := admin.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	n := 1 + random.IntN(5) // keys
	for i := range n {
		kind, queue := random.IntN(5), random.IntN(5)
		for _, prefix := range []string{"a:", "b:"} {
			prepare(t, admin, fmt.Sprint(prefix, i), kind, queue)
		}
	}
	id := []string{"me", "there"}[random.IntN(2)] // the latter has a subscription
	words := []string{"release", "release", "release", "release 0 open 0", "undo", "renew 5000", "heal 5000 0", "again 5000 - 0", "again 4000 0 4000",
		"again 4000 999- 4000", "again 4000 1000- 4000", "commit 5 5000", "again 4000 0 4000f 5", "release 0 other 7", "release 4000 free 0",
		"release 4000 - 0", "release 4000 +other 0", "register 5000 -- 0", "register 5000 0 4000", "register 5000 1000- 4000", "register 5000 - 0", "register 0 0 4000"}
	if !follows {
		words = words[:len(words)-7]
	}
	length := 2 + random.IntN(6)
	pair := follows && random.IntN(4) == 0 // a release and the acquisition behind it, and nothing else
	if pair {
		length = 2
	}
	batch, members := redis.Args{batchLua.sha(), length}, redis.Args{id}
	var alone []any
	i, word := 0, ""
	for range length {
		if follows && word == "release" && (pair || random.IntN(2) == 0) {
			word = []string{"register 5000 - 0", "register 5000 0 4000", "register 5000 1000- 4000", "register 0 0 4000"}[random.IntN(4)] // of the same key, as a client that locks in a loop
		} else {
			i, word = random.IntN(n), words[random.IntN(len(words))]
			if pair {
				word = "release"
			}
		}
		token := []string{"token", "token", "token", "next"}[random.IntN(4)]
		reply, err := user.Do("EVALSHA", batchLua.sha(), 1, fmt.Sprint("a:", i), id, word, token)
		alone = append(alone, outcomeOf(reply, err))
		batch, members = batch.Add(fmt.Sprint("b:", i)), members.Add(word, token)
	}
	reply, err := user.Do("EVALSHA", append(batch, members...)...)
	if reply == int64(1) { // for all members
		reply = slices.Repeat([]any{int64(1)}, length)
	}
	replies, err := redis.Values(reply, err)
	if err != nil {
		t.Fatalf("%v: %v", append(batch, members...), err)
	}
	for i, reply := range replies {
		err, _ := reply.(redis.Error)
		if err == "" {
			replies[i] = outcomeOf(reply, nil)
		} else {
			replies[i] = outcomeOf(nil, err)
		}
	}
	if !reflect.DeepEqual(replies, alone) {
		differs = fmt.Sprintf("%v\nis answered %v, and its members alone %v", append(batch, members...), replies, alone)
	}
	for i := range n {
		if a, b := stateOf(t, admin, fmt.Sprint("a:", i)), stateOf(t, admin, fmt.Sprint("b:", i)); a != b {
			differs += fmt.Sprintf("\n%v\nleaves key %d as %s, and alone it is %s", append(batch, members...), i, b, a)
		}
	}
	return differs
}

// outcomeOf returns a number, or that there was an error, or a refusal.
func outcomeOf(reply any, err error) any {
	if list, ok := reply.([]any); ok {
		return fmt.Sprint(outcomeOf(list[0], nil), list[1:])
	}
	if err != nil {
		return "an error"
	} else if n, ok := reply.(int64); ok && n < -1 {
		return "refused, with the time left"
	} else if ok && n > 2 {
		return "held, with the time left"
	}
	return reply
}

// prepare writes a key and its queue, each in one of five states.
func prepare(t *testing.T, conn redis.Conn, key string, kind, queue int) {
	t.Helper()
	switch kind {
	case 0: // no key
	case 1:
		conn.Send("RPUSH", key, "no lock")
	case 2:
		conn.Send("SET", key, "another's", "PX", 60_000)
	default:
		conn.Send("SET", key, "token", "PX", 60_000)
	}
	name := "redlock:queue:" + key
	switch queue {
	case 0:
		conn.Send("ZADD", name, 1, "me token 4000", 2, "gone gone 4000", 3, "gone token 4000", 4, "there other 4000")
	case 1:
		conn.Send("ZADD", name, 1, "gone gone 4000", 2, "there token 4000", 3, "deaf later 4000p", 4, "me token 4000p")
	case 2:
		conn.Send("SET", name, "no queue")
	}
	if _, err := conn.Do(""); err != nil {
		t.Fatal(err)
	}
}

// stateOf returns what stands under a key and in its queue.
func stateOf(t *testing.T, conn redis.Conn, key string) string {
	t.Helper()
	value, _ := conn.Do("GET", key)
	queue, _ := redis.Strings(conn.Do("ZRANGE", "redlock:queue:"+key, 0, -1))
	lives := "for ever"
	if ms, err := redis.Int64(conn.Do("PTTL", key)); err != nil {
		t.Fatal(err)
	} else if ms > 5000 {
		lives = "for long"
	} else if ms >= 0 {
		lives = "for 5 s"
	}
	return fmt.Sprintf("%q, %s, queue %q", value, lives, queue)
}

// A claim that joined the queue of a key within a batch leaves it when it gets the lock, although the key
// had no queue when the batch released it.
func TestTheLastAcquisitionOfABatchLeavesTheQueue(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	admin := dialAs(t, server)
	listen(t, dialAs(t, server), "me")
	if _, err := admin.Do("SET", "k", "first"); err != nil {
		t.Fatal(err)
	}
	args := redis.Args{batchLua.text(), 5, "k", "k", "k", "k", "k", "me"}.
		Add("release", "first", "register 5000 0 400", "second", "register 5000 0 400", "third", "undo", "second", "register 5000 0 400", "third")
	if _, err := admin.Do("EVAL", args...); err != nil {
		t.Fatal(err)
	}
	if got, want := stateOf(t, admin, "k"), `"third", for 5 s, queue []`; got != want {
		t.Errorf("the key is %s, want %s", got, want)
	}
}

// The usual calls need few commands of the server: what it does for them is most of what a lock costs.
func TestTheUsualCallsTakeFewCommands(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	s := newQueueScene(t, func() redis.Conn { return dialAs(t, server) })
	for _, row := range []struct {
		name     string
		held     []any // keys and what they hold
		call     []any // for each command a key, a word and a token
		want     any   // nil: any answer
		left     []any // keys and what they hold then
		commands int   // with that of the call; 0: any number
	}{
		{"a release", []any{"k", "A"}, []any{"k", "release", "A"}, int64(1), nil, 4}, // EVALSHA GET EXISTS DEL
		{"a release, of another's key", []any{"k", "Z"}, []any{"k", "release", "A"}, int64(-1), []any{"k", "Z"}, 2},
		{"a release and the next registration", []any{"k", "A"}, []any{"k", "release", "A", "k", "register 60000 - 0", "A2"}, int64(1), []any{"k", "A2"}, 4}, // EVALSHA GET EXISTS SET
		{"the same of a claim", []any{"k", "A"}, []any{"k", "release 400", "A", "k", "register 60000 0 400", "A2"}, int64(1), []any{"k", "A2"}, 4},
		{"a release, and a registration of another key", []any{"k", "A"}, []any{"k", "release", "A", "j", "register 60000 - 0", "A2"}, int64(1), []any{"j", "A2"}, 7},
		{"two releases of a key", []any{"k", "A"}, []any{"k", "release", "A", "k", "release", "A"}, []any{int64(1), int64(0)}, nil, 8},
		{"releases of two keys", []any{"k", "A", "j", "B"}, []any{"k", "release", "A", "j", "release", "B"}, int64(1), nil, 4}, // EVALSHA MGET EXISTS DEL
		{"releases and the next registrations of two keys", []any{"k", "A", "j", "B"}, []any{"k", "release", "A", "j", "release", "B", "k", "register 60000 - 0", "A2", "j", "register 60000 - 0", "B2"},
			int64(1), []any{"k", "A2", "j", "B2"}, 5}, // EVALSHA MGET EXISTS, two SET
		{"a release and two registrations", []any{"k", "A"}, []any{"k", "release", "A", "k", "register 60000 - 0", "A2", "k", "register 60000 - 0", "A3"}, nil, []any{"k", "A2"}, 0},
		{"a registration and a release", nil, []any{"k", "register 60000 - 0", "A", "k", "release", "A"}, int64(1), nil, 0},
		{"a renewal", []any{"k", "A"}, []any{"k", "renew 9000", "A"}, int64(1), []any{"k", "A"}, 2},
		{"a renewal of another's key", []any{"k", "Z"}, []any{"k", "renew 9000", "A"}, int64(-1), []any{"k", "Z"}, 2},
		{"a renewal without a key", nil, []any{"k", "renew 9000", "A"}, int64(0), nil, 2},
		{"a renewal that asks", []any{"k", "A"}, []any{"k", "renew 9000 -", "A"}, int64(1), []any{"k", "A"}, 3},
	} {
		s.reset()
		for i := 0; i < len(row.held); i += 2 {
			s.must("SET", row.held[i], row.held[i+1], "PX", 60_000)
		}
		keys, rest := redis.Args{batchLua.sha(), len(row.call) / 3}, redis.Args{"c"}
		for i := 0; i < len(row.call); i += 3 {
			keys, rest = keys.Add(row.call[i]), rest.Add(row.call[i+1:i+3]...)
		}
		var got any
		commands := s.calls(func() { got = s.must("EVALSHA", append(keys, rest...)...) })
		if row.want != nil && !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: answered %v, want %v", row.name, got, row.want)
		}
		if row.commands != 0 && commands != row.commands {
			t.Errorf("%s: %d commands, want %d", row.name, commands, row.commands)
		}
		for i := 0; i < len(row.left); i += 2 {
			if text, _ := redis.String(s.conn.Do("GET", row.left[i])); text != row.left[i+1] {
				t.Errorf("%s: %s holds %q, want %q", row.name, row.left[i], text, row.left[i+1])
			}
		}
		if n, _ := redis.Int(s.must("EXISTS", "k", "j"), nil); n != len(row.left)/2 {
			t.Errorf("%s: %d keys are left, want %d", row.name, n, len(row.left)/2)
		}
	}
}
