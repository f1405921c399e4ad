package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkATurn measures calls in which one of 12 clients releases a lock, which is granted to the client that has waited longest, and
// registers its next claim: a master's CPU time, and the commands of such a call.
func BenchmarkATurn(b *testing.B) {
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
	info, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		b.Fatal(err)
	}
	own := OwnOf(InfoField(info, "run_id"))
	sha := own.sha(batchLua)
	if _, err := conn.Do("SCRIPT", "LOAD", own.Texts[indexOfOwn(batchLua)]); err != nil {
		b.Fatal(err)
	}
	token := func(turn int) string { return fmt.Sprintf("token%032d", turn) }
	const register = "register 600000 0 1000"
	for i := range clients {
		if _, err := dial().Do("SUBSCRIBE", WakeChannel+fmt.Sprint(i)); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Do("EVALSHA", sha, 1, "k", i, register, token(i)); err != nil {
			b.Fatal(err)
		}
	}
	all := make(samples)
	turn := 0
	for b.Loop() {
		conn.Do("CONFIG", "RESETSTAT")
		before := cpuOf(b, conn)
		for range turns {
			reply, err := redis.Values(conn.Do("EVALSHA", sha, 2, "k", "k", turn%clients,
				"release 1000 - 0", token(turn), register, token(turn+clients), 20, 520, 1250))
			if err != nil || len(reply) != 2 || reply[0] != int64(2) {
				b.Fatalf("turn %d: %v, %v", turn, reply, err)
			}
			turn++
		}
		all.add("µs/turn", (cpuOf(b, conn)-before)/turns)
		calls, _ := redis.String(conn.Do("INFO", "commandstats"))
		_, calls, _ = strings.Cut(calls, "cmdstat_evalsha:")
		_, calls, _ = strings.Cut(calls, "usec_per_call=")
		var each float64
		fmt.Sscan(strings.Split(calls, ",")[0], &each)
		all.add("µs/call", each)
		stats, err := redis.String(conn.Do("INFO", "stats"))
		_, count, _ := strings.Cut(stats, "total_commands_processed:")
		var commands float64
		if _, scan := fmt.Sscan(count, &commands); err != nil || scan != nil {
			b.Fatal(err, scan)
		}
		all.add("commands/turn", commands/turns)
	}
	b.ReportMetric(0, "ns/op")
	all.report(b)
}
