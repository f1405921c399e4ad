package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/executed"
	"github.com/redlock-go/redlock/internal/model/server"
	"github.com/redlock-go/redlock/internal/wire"
	"github.com/redlock-go/redlock/redlocktest"
)

// An explainer has each call explained by a specification that knows only what the keys say.
type explainer struct {
	of   server.Script
	step *server.Step
	spec *server.Server
	err  error // of the last call of the script
}

func (e *explainer) Before(c *executed.Call) {
	e.step = nil
	if c.Name == "EVALSHA" {
		e.spec = server.New()
		e.step = e.spec.Before(e.of, c)
	}
}

func (e *explainer) After(*executed.Call) {
	if e.step != nil {
		e.err = e.spec.After(e.step)
	}
}

func (e *explainer) Changed() {}

// A master is one whose calls are explained. The client c calls. The clients v and w have subscriptions, and s is silent.
type master struct {
	*testing.T
	*explainer
	conn redis.Conn
	sha  string
}

func newMaster(t *testing.T, of server.Script, script string) *master {
	masters := redlocktest.StartN(t, 1)
	m := &master{T: t, explainer: &explainer{of: of}}
	executed.Attach(masters.Master(0), m.explainer)
	pool := masters.Pools()[0]
	m.conn = pool.Get()
	t.Cleanup(func() { m.conn.Close() })
	for _, text := range wire.AllScripts() {
		sha := m.must("SCRIPT", "LOAD", text)
		if wire.Name(text) == script {
			m.sha, _ = redis.String(sha, nil)
		}
	}
	sub := redis.PubSubConn{Conn: pool.Get()}
	t.Cleanup(func() { sub.Close() })
	for _, client := range []string{"c", "v", "w", "s"} {
		if err := sub.Subscribe("redlock:wake:" + client); err != nil {
			t.Fatal(err)
		}
		sub.Receive() // it is confirmed
	}
	time.Sleep(time.Hour) // what has waited for long has a score of the past
	return m
}

func (m *master) must(command string, args ...any) any {
	m.Helper()
	reply, err := m.conn.Do(command, args...)
	if err != nil {
		m.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

// queue puts members into a sorted set. The score of one is since when it waits, in µs, or what is behind a slash.
func (m *master) queue(key string, members ...string) {
	for _, name := range members {
		name, score, ok := strings.Cut(name, "/")
		if !ok {
			score = fmt.Sprint(time.Now().Add(-2 * time.Second).UnixMicro())
		}
		m.must("ZADD", key, score, name)
	}
}

// call executes words for k in one call of the client, and fails the test if it is not explained.
func (m *master) call(scene, client, key string, words ...[2]string) {
	m.Helper()
	args := redis.Args{m.sha, len(words)}
	for range words {
		args = append(args, key)
	}
	args = append(args, client)
	for _, w := range words {
		args = append(args, w[0], w[1])
	}
	m.err = nil
	if _, err := m.conn.Do("EVALSHA", append(args, 700, 0)...); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		m.Fatal(err)
	}
	if m.err != nil {
		m.Errorf("%s: %q by %q: %v", scene, words, client, m.err)
	}
}

// pairs has each pair of words be one call: a word for the token A, which the scene may know, and one for B.
func (m *master) pairs(scene, client, key string, prepare func(), firsts, seconds []string) {
	m.Helper()
	for _, first := range firsts {
		for _, second := range seconds {
			m.must("FLUSHDB")
			m.must("SET", "redlock:waiter:s", "1000 0")
			prepare()
			m.call(scene, client, key, [2]string{first, "A"}, [2]string{second, "B"})
		}
	}
}

// The scripts save commands where a call has a release and what its client does next. So a word may do something else than in a call of its own: an
// open release refused a client without a subscription, although it had waited longest.
func TestEachWordBehindOneThatLeavesTheLockFreeIsExplained(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	seconds := of("acquire 9000 - - 9", "undo", "heal 9000 9", "renew 9000", "register 9000 - 0", "register 9000 -- 0", "register 9000 -- 0 9")
	for _, verb := range []string{"register", "again"} {
		for _, waited := range of("999-", "1000-", "5000-", "-", "5000") {
			for _, g := range []string{"400", "400f 9"} {
				seconds = append(seconds, verb+" 9000 "+waited+" "+g)
			}
		}
	}
	firsts := of("release 0", "release 400", "release 400 open 0", "release 0 open 0", "release 400f open 7", "release 400 free 0", "release 400 LONG- 0",
		"release 400 +LONG- 0", "undo")
	type scene struct {
		holds, client  string
		queue, readers []string
	}
	var scenes []scene
	for _, queue := range [][]string{none, of("w W 400"), of("w W 400", "v LONG-V 400f"), of("d D 400p"), of("d D 400fp/5", "w W 400"), of("w W 400", "d D 400p/7"),
		of("s S 400"), of("s S 400/7", "w W 400"), of("gone G 400/7", "w W 400"), of("c A 400/5", "w W 400"),
		of("c A 400p/5", "w W 400"), of("w W 400/5", "c A 400p/6", "c A 400/7", "v V 400"), of("w W 400p/5", "v V 400/6", "w W 400/7"),
		of("w W 400/5", "v V 400/6", "v V2 400/7", "w W 400p/8", "v V3 400/9"),
		of("c A 400/5", "v V 400/6", "v V2 400/7", "v V3 400/8", "w W 400")} {
		scenes = append(scenes, scene{"A", "c", queue, none})
	}
	for _, queue := range [][]string{of("w W 400"), of("d D 400p/5", "w W 400")} {
		scenes = append(scenes, scene{"A", "", queue, none}, scene{"", "c", queue, none}, scene{"A", "c", queue, of("w R 400")})
	}
	scenes = append(scenes, scene{"A", "c", of("w W 400"), of("s R 400/5", "s R 400p/6", "w R 400")}, scene{"A", "c", none, of("s R 400/5", "s R 400p/6", "s R2 400/7")})
	bubbletest.Test(t, func(t *testing.T) {
		m := newMaster(t, server.Batch, "batch")
		for _, s := range scenes {
			m.pairs(fmt.Sprintf("%+q", s), s.client, "k", func() {
				m.queue("redlock:queue:k", s.queue...)
				m.queue("redlock:rqueue:k", s.readers...)
				if s.holds != "" {
					m.must("SET", "k", s.holds, "PX", 60_000)
				}
			}, firsts, seconds)
		}
	})
}

func TestEachWordBehindOneOfAReaderThatLeavesIsExplained(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	firsts := of("readers release 400", "readers release 400 =W", "readers release 400f free", "readers undo", "release 400", "release 400 open 0")
	seconds := of("readers retract", "readers announce -", "readers announce 500", "readers announce 5000", "readers renew 9000", "readers heal 9000 9", "readers commit 9 9000", "register 9000 0 400", "again 400 5000 400", "undo")
	seconds = append(seconds, firsts...)
	for _, verb := range of("register", "again", "asks") {
		for _, waited := range of("0", "5000", "999-", "5000-") {
			for _, g := range of("-", "400", "400f 9") {
				if g == "-" && strings.HasSuffix(waited, "-") {
					continue
				}
				seconds = append(seconds, "readers "+verb+" 9000 "+waited+" "+g)
			}
		}
	}
	bubbletest.Test(t, func(t *testing.T) {
		m := newMaster(t, server.Batch, "batch")
		for _, stand := range [][]string{none, of("c A"), of("c A", "v V"), of("the token A")} {
			for _, waiting := range [][]string{none, of("w W2 400"), of("c A 400", "w W2 400f"), of("c B 400p", "gone P2 400p"), of("s S2 400", "w W2 400"), of("gone G2 400")} {
				for _, queue := range [][]string{none, of("w W 400"), of("s S 400")} {
					for _, announced := range []bool{false, true} {
						scene := fmt.Sprintf("%q stand, %q wait, queue %q, announced %v", stand, waiting, queue, announced)
						prepare := func() {
							m.queue("redlock:queue:k", queue...)
							m.queue("redlock:rqueue:k", waiting...)
							for _, name := range stand {
								if token, is := strings.CutPrefix(name, "the token "); is {
									m.must("SET", "k", token, "PX", 60_000)
									continue
								}
								m.queue("redlock:readers:k", fmt.Sprintf("%s/%d", name, time.Now().Add(time.Minute).UnixMilli()))
								m.must("SET", "k", server.Marker, "PX", 60_000)
								m.must("PEXPIRE", "redlock:readers:k", 60_000)
							}
							if announced {
								m.must("SET", "redlock:intent:k", time.Now().Add(-time.Second).UnixMilli(), "PX", 500)
							}
						}
						m.pairs(scene, "c", "k", prepare, firsts, seconds)
					}
				}
			}
		}
	})
}

func TestEachWordBehindOneThatLeavesSlotsFreeIsExplained(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	bubbletest.Test(t, func(t *testing.T) {
		m := newMaster(t, server.Slots, "slots")
		const key = "redlock:slots:k"
		var seconds []string
		for _, waited := range of("-", "5000") {
			for _, first := range []string{"0", "1!"} {
				for _, n := range []string{"1", "2"} {
					terms := " 2 " + n + " " + first + " 400 " + waited
					seconds = append(seconds, "register 9000"+terms, "again 400"+terms, "aim 400"+terms+" 0", "heal 9000"+terms+" 0,1")
				}
			}
		}
		seconds = append(seconds, "renew 9000 0", "fence 9000 0 9", "commit 9000 0 9", "release 2 1 0 400")
		for _, has := range [][]string{none, of("0"), of("0", "1")} { // the slots of A
			for _, others := range [][]string{none, of("1")} { // those of V
				for _, queue := range [][]string{none, of("w W 400 1 2 0"), of("w W 400 2 2 0"), of("w W 400 1 2 0", "v V2 400 1 2 1!"), of("s S 400 1 2 0"), of("gone G 400 1 2 0", "w W 400 1 2 0")} {
					if len(has) == 2 && len(others) > 0 {
						continue
					}
					scene := fmt.Sprintf("A has %q, V %q, queue %q", has, others, queue)
					prepare := func() {
						args := redis.Args{key, "limit", 2}
						for token, slots := range map[string][]string{"A": has, "V": others} {
							if len(slots) > 0 {
								args = append(args, "@"+token, strings.ToLower(strings.Replace(token, "A", "c", 1))+" 400 2 - "+strings.Join(slots, ","))
							}
							for _, slot := range slots {
								args = append(args, slot, token)
								m.must("ZADD", "redlock:until:k", time.Now().Add(time.Minute).UnixMilli(), slot)
								m.must("SETBIT", "redlock:taken:k", slot, 1)
							}
						}
						m.must("HSET", args...)
						for _, k := range []string{key, "redlock:until:k", "redlock:taken:k"} {
							m.must("PEXPIRE", k, 600_000)
						}
						m.queue("redlock:permits:k", queue...)
					}
					m.pairs(scene, "c", key, prepare, of("release 2 1 0 400", "release 2 2 0 400", "renew 9000 0", "aim 400 2 1 0 400 - 0", "heal 9000 2 1 0 400 - 0"), seconds)
				}
			}
		}
	})
}
