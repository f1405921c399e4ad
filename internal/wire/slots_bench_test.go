package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkPermits measures the CPU time for which a master acquires and releases the last free permit of a semaphore, and for
// which it renews it, where the limit is 4 and where it is 4 000. Both take turns at one server. The ratio is that of the larger
// limit to the smaller one.
func BenchmarkPermits(b *testing.B) {
	conn, err := redis.Dial("tcp", redisserver.StartTB(b, 1)[0].Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	send := func(limit, n int, word string) {
		conn.Send("EVALSHA", slotsLua.sha(), 1, fmt.Sprint(slotsKey, "k", limit), "client", word, fmt.Sprintf("token%032d", n))
	}
	receive := func() any {
		replies, err := redis.Values(conn.Do(""))
		if err != nil {
			b.Fatal(err)
		}
		for _, reply := range replies {
			if err, ok := reply.(redis.Error); ok {
				b.Fatal(err)
			}
		}
		return replies[len(replies)-1]
	}
	want := func(what, beginning string) {
		if got := fmt.Sprint(receive()); !strings.HasPrefix(got, beginning) {
			b.Fatalf("%s: %s, want %s", what, got, beginning)
		}
	}
	if _, err := conn.Do("SCRIPT", "LOAD", slotsLua.text()); err != nil {
		b.Fatal(err)
	}
	limits := []int{4, 4000}
	register := func(limit int) string { return fmt.Sprintf("register 600000 %d 1 0 400 -", limit) }
	for _, limit := range limits {
		for i := range limit - 1 {
			send(limit, i, register(limit))
			want("a free permit", "[1 ")
		}
	}
	const turns = 2000
	all := make(samples)
	for b.Loop() {
		var acquired, renewed []float64
		for _, limit := range limits {
			before := cpuOf(b, conn)
			for range turns {
				send(limit, 9999, register(limit))
				send(limit, 9999, fmt.Sprintf("release %d 1 0 400", limit))
			}
			want("a release", "1")
			acquired = append(acquired, (cpuOf(b, conn)-before)/turns)

			send(limit, 9999, register(limit))
			want("the last permit", fmt.Sprintf("[1 %v ", []byte(fmt.Sprint(limit-1))))
			before = cpuOf(b, conn)
			for range turns {
				send(limit, 9999, fmt.Sprintf("renew 600000 %d", limit-1))
			}
			want("a renewal", "1")
			renewed = append(renewed, (cpuOf(b, conn)-before)/turns)
			send(limit, 9999, fmt.Sprintf("release %d 1 0 400", limit))
			want("a release", "1")
		}
		all.add("µs/acquire+release/4", acquired[0])
		all.add("µs/acquire+release/4000", acquired[1])
		all.add("ratio/acquire+release", acquired[1]/acquired[0])
		all.add("µs/renew/4", renewed[0])
		all.add("µs/renew/4000", renewed[1])
		all.add("ratio/renew", renewed[1]/renewed[0])
	}
	b.ReportMetric(0, "ns/op")
	all.report(b)
}

// BenchmarkATurnAtASemaphore measures calls in which one of 12 clients releases its permit, of 4, which is granted to the client that has waited
// longest, and registers its next claim.
func BenchmarkATurnAtASemaphore(b *testing.B) {
	benchmarkTurns(b, slotsLua, slotsKey+"k", "register 600000 4 1 0 400 0", "release 4 1 0 400", 1)
}
