package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkATurn measures calls in which one of 12 clients releases a lock, which is granted to the client that has waited longest, and
// registers its next claim.
func BenchmarkATurn(b *testing.B) {
	benchmarkTurns(b, batchLua, "k", "register 600000 0 1000", "release 1000 - 0", 2)
}

// benchmarkTurns measures calls of a script in which one of 12 clients releases what it holds, and registers its next claim: a master's CPU
// time, the time that the server counts for a call, and the commands of a call. released is the answer to a release.
func benchmarkTurns(b *testing.B, script *lua, key, register, release string, released int64) {
	const clients, turns = 12, 2000
	server := redisserver.StartTB(b, 1)[0]
	dial := func() redis.Conn {
		conn, err := redis.Dial("tcp", server.Addr())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		return conn
	}
	conn := dial()
	info := func(section, name, field string) (n float64) {
		text, err := redis.String(conn.Do("INFO", section))
		_, rest, _ := strings.Cut(text, name)
		_, rest, _ = strings.Cut(rest, field)
		if _, scan := fmt.Sscan(strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == '\r' })[0], &n); err != nil || scan != nil {
			b.Fatal(err, scan)
		}
		return n
	}
	text, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		b.Fatal(err)
	}
	own := OwnOf(InfoField(text, "run_id"))
	sha := own.sha(script)
	if _, err := conn.Do("SCRIPT", "LOAD", own.Texts()[indexOfOwn(script)]); err != nil {
		b.Fatal(err)
	}
	token := func(turn int) string { return fmt.Sprintf("token%032d", turn) }
	for i := range clients {
		if _, err := dial().Do("SUBSCRIBE", WakeChannel+fmt.Sprint(i)); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Do("EVALSHA", sha, 1, key, i, register, token(i)); err != nil {
			b.Fatal(err)
		}
	}
	all := make(samples)
	turn := 0
	for b.Loop() {
		conn.Do("CONFIG", "RESETSTAT")
		before := cpuOf(b, conn)
		for range turns {
			reply, err := redis.Values(conn.Do("EVALSHA", sha, 2, key, key, turn%clients, release, token(turn), register, token(turn+clients), 520, 1250))
			if err != nil || len(reply) != 2 || reply[0] != released {
				b.Fatalf("turn %d: %v, %v", turn, reply, err)
			}
			turn++
		}
		all.add("µs/turn", (cpuOf(b, conn)-before)/turns)
		all.add("µs/call", info("commandstats", "cmdstat_evalsha:", "usec_per_call="))
		all.add("commands/turn", info("stats", "total_commands_processed", ":")/turns)
	}
	b.ReportMetric(0, "ns/op")
	all.report(b)
}
