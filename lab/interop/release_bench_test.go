package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/internal/wire"
)

var used = regexp.MustCompile(`cmdstat_(evalsha|del|delifeq|exists):.*?usec=(\d+)`)

// BenchmarkRelease measures for how long a server executes releases of locks for which nobody waits: by the script, and by
// DELIFEQ, which Valkey has from version 9 on. DELIFEQ does not tell whether somebody waits, so EXISTS asks for the two queues. Debian's
// redis-server has no DELIFEQ, and does DEL instead. The time is that of commandstats, without that for reading commands and writing replies.
//
// Releases go by the script. No client knows whether somebody waits, so EXISTS has to ask for the queues behind DELIFEQ. If there is one, another
// command has to pass the lock on, a round trip later than the script does. In one run, Valkey 9.1 took 28 µs for a call of the script, 11 µs a release
// for a call of 26, and 3.4 µs for DELIFEQ and EXISTS; redis-server 7.0 took 8.1, 4.1 and, with DEL, .46 µs. So it would save a master 4 to 8 µs of processor
// time a release, and no round trip, for a second way to release with rights and versions of its own. A lock that nobody else wants costs no
// command at all with LockOptions.Keep.
func BenchmarkRelease(b *testing.B) {
	b.Run("Valkey", func(b *testing.B) { release(b, startValkey(b), "DELIFEQ", "0123456789abcdefghijklmnopqrstuv") })
	b.Run("redis-server", func(b *testing.B) { release(b, redisserver.StartTB(b, 1)[0].Addr(), "DEL") })
}

func release(b *testing.B, address, del string, operands ...any) {
	const keys = 26
	conn, err := redis.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", wire.Scripts()[0]))
	if err != nil {
		b.Fatal(err)
	}
	key := func(i int) string { return fmt.Sprint("name-", i) }
	const token = "0123456789abcdefghijklmnopqrstuv"
	deleted := func(n int) error {
		for range n {
			if reply, err := conn.Receive(); err != nil || reply != int64(1) {
				return fmt.Errorf("a release was answered %v (%v)", reply, err)
			}
		}
		return nil
	}
	for _, v := range []struct {
		name    string
		release func() error
	}{
		{"script, a call for each", func() error {
			for i := range keys {
				conn.Send("EVALSHA", sha, 1, key(i), "client-of-27-characters-000", "release 10000", token)
			}
			conn.Flush()
			return deleted(keys)
		}},
		{"script, one call", func() error {
			args := redis.Args{sha, keys}
			for i := range keys {
				args = args.Add(key(i))
			}
			args = args.Add("client-of-27-characters-000")
			for range keys {
				args = args.Add("release 10000", token)
			}
			conn.Send("EVALSHA", args...)
			conn.Flush()
			return deleted(1)
		}},
		{del + " and EXISTS", func() error {
			for i := range keys {
				conn.Send(del, append([]any{key(i)}, operands...)...)
				conn.Send("EXISTS", "redlock:queue:"+key(i), "redlock:rqueue:"+key(i))
			}
			conn.Flush()
			for range keys {
				if err := deleted(1); err != nil {
					return err
				}
				if _, err := conn.Receive(); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		b.Run(v.name, func(b *testing.B) {
			total := 0.0
			for range b.N {
				for i := range keys {
					conn.Send("SET", key(i), token, "PX", 60_000)
				}
				conn.Send("CONFIG", "RESETSTAT")
				if _, err := conn.Do(""); err != nil {
					b.Fatal(err)
				}
				if err := v.release(); err != nil {
					b.Fatal(err)
				}
				stats, err := redis.String(conn.Do("INFO", "commandstats"))
				if err != nil {
					b.Fatal(err)
				}
				calls, inside := 0.0, 0.0 // inside a script, if there are calls of one
				for _, m := range used.FindAllStringSubmatch(stats, -1) {
					usec, _ := strconv.ParseFloat(m[2], 64)
					if m[1] == "evalsha" {
						calls += usec
					} else {
						inside += usec
					}
				}
				if calls == 0 {
					calls = inside
				}
				total += calls
			}
			b.ReportMetric(total/float64(b.N)/keys, "µs/release")
		})
	}
}
