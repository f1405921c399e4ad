package wire

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// A twin is a server that executes calls of a script.
type twin struct {
	*miniredis.Miniredis
	conn  redis.Conn
	inbox redis.PubSubConn // of the clients that have a subscription
	sha   string
}

// newTwin starts a server for a text of a script. These clients have a subscription.
func newTwin(t *testing.T, text string, clients ...string) *twin {
	m := startMiniredis(t)
	w := &twin{Miniredis: m, conn: dialling(t, m.Addr())(), inbox: redis.PubSubConn{Conn: dialling(t, m.Addr())()}}
	for _, client := range append(clients, "the last") {
		if err := w.inbox.Subscribe(WakeChannel + client); err != nil {
			t.Fatal(err)
		}
		w.inbox.ReceiveWithTimeout(5 * time.Second) // it is confirmed
	}
	var err error
	if w.sha, err = redis.String(w.conn.Do("SCRIPT", "LOAD", text)); err != nil {
		t.Fatal(err)
	}
	return w
}

// A usualCall is a call, and the commands that prepare its keys.
type usualCall struct {
	keys []string
	args []any
	made [][]any
	now  time.Time
}

func (c *usualCall) make(command ...any) { c.made = append(c.made, command) }

// remembers makes the record of the memory, and notes of clients that wait.
func (c *usualCall) remembers(r *rand.Rand) {
	if r.IntN(10) > 0 {
		c.make("SET", "redlock:incarnation", "i", "PX", 3_600_000)
	}
	for _, client := range []string{"v", "w", "s"} {
		if r.IntN(3) == 0 {
			till := c.now.UnixMilli() + pick[int64](r, -20_000, -1, 0, 1000)
			c.make("SET", "redlock:waiter:"+client, fmt.Sprint(till, " ", pick(r, 0, 6000)))
		}
	}
}

func (c *usualCall) String() string { return fmt.Sprintf("%v, then %q", c.made, c.args) }

// An outcome is what a call has answered and left. near are the messages that only say that a claim is near.
type outcome struct {
	reply, keys, ttls, told string
	near                    []string
}

// does executes a call on keys that are made first.
func (w *twin) does(t *testing.T, c *usualCall) (o outcome) {
	t.Helper()
	w.FlushAll()
	w.SetTime(c.now)
	for _, command := range c.made {
		if _, err := w.conn.Do(command[0].(string), command[1:]...); err != nil {
			t.Fatal(command, err)
		}
	}
	args := redis.Args{w.sha, len(c.keys)}.AddFlat(c.keys).AddFlat(c.args)
	reply, err := w.conn.Do("EVALSHA", args...)
	o.reply = replyText(reply, err)
	o.keys = w.Dump()
	for _, key := range w.Keys() {
		o.ttls += fmt.Sprint(key, " ", w.TTL(key), "\n")
	}
	w.conn.Do("PUBLISH", WakeChannel+"the last", "")
	var told []string
	for {
		m, ok := w.inbox.ReceiveWithTimeout(5 * time.Second).(redis.Message)
		if !ok {
			t.Fatalf("%v: the last message does not come", c)
		} else if m.Channel == WakeChannel+"the last" {
			slices.Sort(told)
			o.told = strings.Join(told, "\n")
			return o
		}
		text := m.Channel + " " + string(m.Data)
		if strings.HasPrefix(string(m.Data), string(IsNear)) {
			o.near = append(o.near, text)
		} else {
			told = append(told, text)
		}
	}
}

// replyText returns a reply as a text. Three claims ahead or more need not be counted.
func replyText(reply any, err error) string {
	switch reply := reply.(type) {
	case []any:
		if ahead, ok := reply[len(reply)-1].(int64); ok && len(reply) == 5 && ahead >= Near {
			reply[4] = int64(Near)
		}
		var parts []string
		for _, part := range reply {
			parts = append(parts, replyText(part, nil))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []byte:
		return fmt.Sprintf("%q", reply)
	}
	return fmt.Sprint(reply, err)
}

// tells reports whether a message that a claim is near is needed after a call: the claim is not young, and was not near before.
func (c *usualCall) tells(near string) bool {
	type member struct {
		score int64
		words []string
		text  string
	}
	var queue []member
	for _, command := range c.made {
		if command[0] == "ZADD" && (command[1] == "redlock:queue:k" || command[1] == "redlock:permits:k") {
			text := command[3].(string)
			queue = append(queue, member{command[2].(int64), strings.Fields(text), text})
		}
	}
	slices.SortFunc(queue, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.text, b.text))
	})
	for i, m := range queue {
		if len(m.words) < 3 || !strings.Contains(near, " "+m.words[1]+" ") {
			continue
		}
		g, _ := strconv.Atoi(strings.TrimRight(m.words[2], "fp"))
		age := c.now.Sub(time.UnixMicro(m.score))
		return i >= Near && (age < 0 || age > YoungFor(time.Duration(g)*time.Millisecond))
	}
	return true
}

// agree checks that random calls have the same effect whether or not usual() executes them. A claim whose registration is young need not be told that
// it is near. random returns the kind of a call, too: usual() has to execute some calls of each kind, but for those with many keys.
func agree(t *testing.T, script *lua, random func(*rand.Rand) (*usualCall, string)) {
	const calls, counted = 3000, 500
	clients := []string{"c", "v", "w", "x", "s"}
	one := newTwin(t, script.text(), clients...)
	// The calls of the other one are not executed by usual(), and those of the third by nothing else.
	before, behind, _ := strings.Cut(script.text(), runLine)
	other := newTwin(t, before+"usual = function() end\n"+behind, clients...)
	third := newTwin(t, before+"do local ok, done = pcall(usual) return ok and done or 'rest' end\n"+behind, clients...)
	executed := make(map[string]int)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range calls {
		c, kind := random(r)
		got, want := one.does(t, c), other.does(t, c)
		for _, near := range append(got.near, want.near...) {
			if slices.Contains(got.near, near) != slices.Contains(want.near, near) && (slices.Contains(got.near, near) || c.tells(near)) {
				t.Errorf("%v: %q is told, want %q", c, got.near, want.near)
			}
		}
		got.near, want.near = nil, nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v:\n%+v\nwithout usual():\n%+v", c, got, want)
		}
		if i < counted {
			executed[kind] += 0
			if third.does(t, c).reply != `"rest"` {
				executed[kind]++
			}
		}
	}
	t.Logf("of %d calls, usual() has executed %v", counted, executed)
	for kind, n := range executed {
		if kind == "many" && n > 0 || kind != "many" && n < counted/40 {
			t.Errorf("usual() has executed %d of %d calls of the kind %s", n, counted, kind)
		}
	}
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// The usual calls of contending clients are executed as all others, but by a function of their own.
func TestTheUsualCallsOnLocksAreExecutedAsAllOthers(t *testing.T) {
	agree(t, batchLua, func(r *rand.Rand) (*usualCall, string) {
		now := time.UnixMicro(1_800_000_000_000_000 + int64(r.IntN(32)))
		c := &usualCall{keys: []string{"k"}, now: now}
		if held := pick(r, "", "", "A", "A", "A", "A", "A", "A", "A", "A", "A", "A", "V", "Z", "Z", "Z~v", ReadersMarker); held != "" {
			c.make("SET", "k", held, "PX", pick(r, 1, 5_000, 60_000))
		}
		plain := r.IntN(2) == 0
		if plain {
			c.make("SET", "k", "A", "PX", 5_000)
		} else if r.IntN(5) == 0 {
			c.make("ZADD", "redlock:rqueue:k", 5, pick(r, "v R 400", "s S 400", "x Y 400p"))
		}
		c.make("ZADD", "redlock:readers:k", now.UnixMilli()+1000, "x R")
		c.remembers(r)
		members := []string{"v V 400", "w W 1000f", "x X 700", "s S 400", pick(r, "c C 400", "v open 400")}
		if r.IntN(4) == 0 {
			members = append(members, "g G 400", "v D 400p", "c A 400", "c A 400p", "v K~v 400", "odd")
		}
		release := "release " + pick(r, "400", "400 - 9", "400 +V 0", "400 +V 0", "400 +W 9", "400 +X", "400 +nobody 0", "400 + 0", "400 +open", "400 open", "400 open 0", "400 free", "400 =V", "0")
		acquire := pick(r, "register", "register", "again") + " " + pick(r, "9000 0 400", "9000 0 400", "9000 0 400", "9000 0 400", "9000 0 400", "9000 0 400", "9000 0 400", "9000 7 400", "9000 -70 400", "0 3 400", "9000 0 400f 7200000000009", "9000 - 0",
			"9000 -- 0", "9000 -- 0 9", "9000 2000- 400", "9000 - 400")
		kind := ""
		switch r.IntN(5) {
		case 0:
			c.args, kind = []any{"c", release, "A"}, "release"
		case 1:
			c.args, kind = []any{"c", acquire, "B"}, "acquisition"
			members = append(members, "c B 400", "c B 400f", "c B 400p")
		case 2:
			c.args, kind = []any{"c", pick(r, "undo", "renew 3000", "renew 3000 -", "acquire 9000 - - 7200000000000", "heal 9000 9", "commit 9 9000", "readers register 9000 0 400"), "A"}, "other"
		default:
			members = append(members, pick(r, "c B 400", "x X 700"))
			if plain {
				release = "release " + pick(r, "400", "400 - 9", "400 +V 0", "400 +W 9", "400 +X", "400 open 0")
				acquire = "register " + pick(r, "9000 0 400", "9000 0 400", "9000 0 400f 7200000000009")
				if r.IntN(10) == 0 { // a grant that fails leaves the key to the next claim
					c.make("SET", "redlock:fence:k", "junk")
					members = []string{"w W 1000f"}
				}
			} else if r.IntN(10) == 0 {
				acquire = pick(r, "release 400", "renew 3000", "readers register 9000 0 400", "commit 9 9000")
			}
			c.keys, c.args, kind = []string{"k", pick(r, "k", "k", "k", "k", "l")}, []any{"c", release, "A", acquire, "B"}, "both"
		}
		if r.IntN(20) == 0 {
			c.keys, c.args, kind = []string{"k", "k", "k"}, []any{"c", release, "A", acquire, "B", release, "Y"}, "many"
		}
		if r.IntN(3) == 0 {
			c.args = append(c.args, pick(r, 520, 0), pick(r, 0, 6000))
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for _, m := range members[:r.IntN(len(members)+1)] {
			score := now.UnixMicro() - pick[int64](r, 0, 1, 100_000, 150_000, 180_000, 499_999, 3_000_000, 5_400_000)
			if r.IntN(10) == 0 {
				score = now.UnixMicro() - pick[int64](r, -500, 5_600_000, 60_000_000)
			}
			if r.IntN(20) == 0 {
				score += setAside
			}
			c.make("ZADD", "redlock:queue:k", score, m)
		}
		if r.IntN(2) == 0 {
			c.make("SET", "redlock:fence:k", pick(r, "1", "7200000000000", "1", "7200000000000", "junk"))
		}
		if r.IntN(15) == 0 {
			key := pick(r, "k", "redlock:queue:k", "redlock:rqueue:k", "redlock:waiter:v", "redlock:fence:k")
			c.make("DEL", key)
			c.make("LPUSH", key, "A")
		}
		if r.IntN(15) == 0 {
			c.make("SET", "redlock:intent:k", now.UnixMilli()-500)
		}
		return c, kind
	})
}

func TestTheUsualCallsOnSemaphoresAreExecutedAsAllOthers(t *testing.T) {
	agree(t, slotsLua, func(r *rand.Rand) (*usualCall, string) {
		now := time.UnixMicro(1_800_000_000_000_000 + int64(r.IntN(32)))
		limit := pick(r, 1, 2, 2, 3, 5)
		c := &usualCall{keys: []string{slotsKey + "k", slotsKey + pick(r, "k", "k", "k", "k", "k", "l")}, now: now}
		taken := limit - r.IntN(10)/9
		for slot := range taken {
			token := pick(r, "Y", "Y", "Z", "B", "V")
			if slot == 0 && r.IntN(10) > 0 {
				token = "A"
			}
			expiry := now.UnixMilli() + pick[int64](r, 1, 500, 60_000)
			if r.IntN(30) == 0 {
				expiry = now.UnixMilli() - pick[int64](r, 0, 1)
			}
			c.make("HSET", slotsKey+"k", slot, token)
			c.make("HSET", slotsKey+"k", "@"+token, fmt.Sprint(pick(r, "c", "z"), " 400 ", limit, " ", pick(r, "-", "-", "-", "-", "-", "-", "-", "-", "-", "!"), " ", slot))
			c.make("ZADD", "redlock:until:k", expiry, slot)
			c.make("SETBIT", "redlock:taken:k", slot, 1)
		}
		if r.IntN(20) == 0 {
			c.make("HSET", slotsKey+"k", "@A", fmt.Sprint("c 400 ", limit, " - 7"), "7", "A")
			c.make("HDEL", slotsKey+"k", "0")
			c.make("ZREM", "redlock:until:k", "0")
			c.make("ZADD", "redlock:until:k", now.UnixMilli()+500, "7")
		}
		c.make("HSET", slotsKey+"k", "limit", pick(r, limit, limit, 7))
		life := pick(r, 50_000, 600_000)
		for _, key := range []string{slotsKey + "k", "redlock:until:k", "redlock:taken:k"} {
			c.make("PEXPIRE", key, life)
		}
		if r.IntN(10) == 0 {
			c.make("HSET", slotsKey+"k", "w0", fmt.Sprint("V ", now.UnixMilli()+100, " 1"), "@V", "v 400 3 - ")
		}
		if r.IntN(10) == 0 {
			c.make("HSET", slotsKey+"k", "crossed", pick(r, "0", "1"))
		}
		c.remembers(r)
		terms := func() string { return fmt.Sprint(" 1 ", limit, " ", pick(r, "0", "0", "0!", "1!")) }
		members := []string{"v V 400" + terms(), "w W 1000" + terms(), "x X 700" + terms(), "s S 400" + terms()}
		if r.IntN(4) == 0 {
			members = append(members, "g G 400"+terms(), "x T 400 2 3 0", "x U 400 1 9 0!", "odd", fmt.Sprint("c A 400 1 ", limit, " 0!"), fmt.Sprint("c B 400 1 ", limit, " 0"))
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for _, m := range members[:r.IntN(len(members)+1)] {
			score := now.UnixMicro() - pick[int64](r, 0, 1, 100_000, 150_000, 180_000, 300_000, 499_999)
			if r.IntN(10) == 0 {
				score = now.UnixMicro() - pick[int64](r, -500, 600_000, 3_000_000, 60_000_000)
			}
			if r.IntN(20) == 0 {
				score += setAside
			}
			c.make("ZADD", "redlock:permits:k", score, m)
		}
		if r.IntN(20) == 0 {
			key := pick(r, slotsKey+"k", "redlock:permits:k", "redlock:until:k", "redlock:taken:k", "redlock:waiter:v")
			c.make("DEL", key)
			c.make("LPUSH", key, "A")
		}
		release := fmt.Sprint("release ", limit, " ", pick(r, "1", "1", "1", "1", "1", "1", "1", "2"), " 0! 400")
		register := fmt.Sprint(pick(r, "register", "register", "register", "register", "register", "again"), " 9000 ", pick(r, limit, limit, limit, limit, limit, limit, 7), " 1 ", pick(r, "0", "0!"), " 400 ",
			pick(r, "0", "0", "7", "-"), pick(r, "", " 0", " 0,1"))
		c.args = []any{"c", release, "A", register, "B"}
		switch r.IntN(20) {
		case 0:
			c.args = []any{"c", "renew 9000 0", "A", "renew 9000 0", "A"}
		case 1:
			c.keys, c.args = append(c.keys, c.keys[0]), append(c.args, release, "Y")
		case 2:
			c.keys, c.args = c.keys[:1], c.args[:3]
		}
		if r.IntN(2) == 0 {
			c.args = append(c.args, pick(r, 520, 0), pick(r, 0, 6000))
		}
		return c, "both"
	})
}
