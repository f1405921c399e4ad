package wire

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A token whose lock the client k may keep.
const keptToken = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT~k"

// A token of 256 bytes, of a client with a long id.
var longToken = keptToken[:28] + strings.Repeat("k", 228)

func TestARefusedAttemptRecallsALockThatMayBeKept(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	const w, x = "w W 60000", "x X 60000"
	recall := of("k", "? "+keptToken+" k")
	standing := func(isNew int64) four { return four{below, 0, (keptToken + " ")[:29], isNew} }
	for _, c := range []call{
		{"a registration", keptToken, none, "register 9000 0 60000", standing(1), keptToken, of(w), recall},
		{"a registration behind another client", keptToken, of(x), "register 9000 -5000 60000", standing(1), keptToken, of(x, w), recall},
		{"a poll of the head", keptToken, of(w, x), "again 9000 0 60000", standing(0), keptToken, of(w, x), recall},
		{"a poll behind the head", keptToken, of(x, w), "again 9000 0 60000", standing(0), keptToken, of(x, w), nil},
		{"a client that does not queue", keptToken, of(x), "register 9000 - 0", below, keptToken, of(x), recall},
		{"a client that does not wait", keptToken, none, "again 9000 - 0", below, keptToken, none, recall},
		{"a claim without a subscription that does not queue yet", keptToken, of(x), "again 9000 999- 60000", standing(0), keptToken, of(x), recall},
		{"a claim without a subscription that is new", keptToken, of(x), "again 9000 1000- 60000", standing(1), keptToken, of(x, w+"p"), recall},
		{"a claim without a subscription that is the head", keptToken, of(w+"p", x), "again 9000 1100- 60000", standing(0), keptToken, of(w+"p", x), recall},
		{"a claim without a subscription behind the head", keptToken, of(x, w+"p"), "again 9000 1100- 60000", standing(0), keptToken, of(x, w+"p"), nil},
		{"an acquisition that joins no queue", keptToken, none, "acquire 9000 - -", below, keptToken, none, recall},
		{"a lock that cannot be kept", "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@k", none, "again 9000 - 0", below, "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@k", none, nil},
		{"the longest token", longToken, none, "again 9000 - 0", below, longToken, none, of(longToken[28:], "? "+longToken+" k")},
		{"a text that is too long for a token", longToken + "k", none, "again 9000 - 0", below, longToken + "k", none, nil},
		{"a client's owner has a ~", "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@me~k", none, "again 9000 - 0", below, "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@me~k", none, nil},
	} {
		t.Run(c.name, func(t *testing.T) { onBoth(t, c.by("w", "w", "x", "k", longToken[28:], longToken[28:]+"k")) })
	}
}

func TestARenewalSaysThatSomebodyWaitsForALockThatMayBeKept(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial)
		renew := func(token string, want int) {
			t.Helper()
			s.must("SET", "k", token, "PX", 60_000)
			got, err := s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "k", "renew 9000", token)
			if err != nil || !asWanted(got, want) {
				t.Errorf("renewing %q: %v, %v, want %d", token, got, err, want)
			}
		}
		renew(keptToken, 1)
		for _, queue := range []string{"redlock:queue:k", "redlock:rqueue:k"} {
			s.must("ZADD", queue, 1, "w W 400")
			renew(keptToken, 2)
			renew("Q7wq2Jm0cX9_-aZbYcXdWeVfUgT", 1)
			s.must("DEL", queue)
		}
	})
}

func TestReadersAndSetsRecallALockThatMayBeKept(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "k")
		s.must("SET", "k", keptToken, "PX", 60_000)
		s.must("EVAL", batchLua.text(), 1, "k", "r", "readers register 9000 0 -", "R")
		s.told("k", "? "+keptToken+" k")
		if _, err := callSet(s.conn, []string{"j", "k"}, "c", "acquire", "", "T"); err != nil {
			t.Fatal(err)
		}
		s.told("k", "? "+keptToken+" k")
		s.nobodyTold()
	})
}

// The only client of the queue has ended, so a poll of a claim that had left the queue is granted the lock. Nobody else wants it.
func TestAPollThatIsGrantedTheLockDoesNotRecallIt(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "k")
		s.reset("x X 60000")
		got, err := s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "k", "again 60000 0 60000", keptToken)
		if err != nil {
			got = err
		}
		s.answered("k", "again", got, four{held, 0, "", 1})
		s.holds(keptToken)
		s.told("k", "+ "+keptToken+" "+s.run+" -2 0 k")
		s.nobodyTold()
	})
}
