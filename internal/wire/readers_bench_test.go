package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// stand has readers stand on a real server, and returns a connection to it.
func stand(b *testing.B, readers int) (addr string, conn redis.Conn) {
	b.Helper()
	addr = redisserver.StartTB(b, 1)[0].Addr()
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	conn.Do("SCRIPT", "LOAD", batchLua.text())
	for i := range readers {
		if _, err := conn.Do("EVALSHA", batchLua.sha(), 1, "k", readerID(i), "readers register 3600000 0 400", "token"); err != nil {
			b.Fatal(err)
		}
	}
	return addr, conn
}

func readerID(i int) string { return fmt.Sprint("client-of-27-characters-", i) }

// spent returns what the script calls since the last reset have cost the server, in µs a call, and how many messages
// were published, and resets both.
func spent(b *testing.B, conn redis.Conn) (micros, messages float64) {
	b.Helper()
	got, err := redis.Float64s(conn.Do("EVAL", `
		local stats = redis.call('INFO', 'commandstats')
		return {string.match(stats, 'cmdstat_evalsha:.-usec_per_call=([%d.]+)'), string.match(stats, 'cmdstat_publish:calls=(%d+)') or '0'}`, 0))
	if err != nil {
		b.Fatal(err)
	}
	conn.Do("CONFIG", "RESETSTAT")
	return got[0], got[1]
}

// samples are the figures of a benchmark, by unit. Their medians are reported.
type samples map[string][]float64

func (s samples) add(unit string, v float64) { s[unit] = append(s[unit], v) }

func (s samples) report(b *testing.B) {
	for unit, vs := range s {
		slices.Sort(vs)
		b.ReportMetric(vs[len(vs)/2], unit)
	}
}

// BenchmarkReadVote measures what a read vote, and a reader's release, cost a master. 500 come and go while
// others stay.
func BenchmarkReadVote(b *testing.B) {
	for _, readers := range []int{0, 1, 1000} {
		b.Run(fmt.Sprint(readers, " readers"), func(b *testing.B) {
			_, conn := stand(b, readers)
			conn.Do("CONFIG", "RESETSTAT")
			all := make(samples)
			for b.Loop() {
				for _, word := range []string{"readers register 3600000 0 400", "readers release 400"} {
					for i := range 500 {
						conn.Send("EVALSHA", batchLua.sha(), 1, "k", fmt.Sprint("reader-", i), word, "token")
					}
					if _, err := conn.Do(""); err != nil {
						b.Fatal(err)
					}
					micros, _ := spent(b, conn)
					all.add("µs/"+word[8:12], micros)
				}
			}
			all.report(b)
		})
	}
}

// BenchmarkAnnouncement measures what the first announcement of a writer's wait, and each later one, cost a master
// with 1000 readers, each of which has a connection that listens.
func BenchmarkAnnouncement(b *testing.B) {
	const readers = 1000
	addr, conn := stand(b, readers)
	for i := range readers {
		inbox, err := redis.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer inbox.Close()
		if _, err := inbox.Do("SUBSCRIBE", WakeChannel+readerID(i)); err != nil {
			b.Fatal(err)
		}
		go func() {
			for {
				if _, err := redis.ReceiveWithTimeout(inbox, 0); err != nil {
					return
				}
			}
		}()
	}
	all := make(samples)
	for b.Loop() {
		conn.Do("DEL", "redlock:intent:k")
		conn.Do("CONFIG", "RESETSTAT")
		for _, which := range []string{"first", "later"} {
			if _, err := conn.Do("EVALSHA", batchLua.sha(), 1, "k", "w", "readers announce 1000", "-"); err != nil {
				b.Fatal(err)
			}
			micros, messages := spent(b, conn)
			all.add("µs/"+which, micros)
			all.add("messages/"+which, messages)
		}
	}
	all.report(b)
}
