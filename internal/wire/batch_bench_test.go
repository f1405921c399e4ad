package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// cpuOf returns the CPU time that a server has used, in µs.
func cpuOf(b *testing.B, conn redis.Conn) float64 {
	b.Helper()
	got, err := redis.Float64s(conn.Do("EVAL", `
		local cpu = redis.call('INFO', 'cpu')
		return {string.match(cpu, 'used_cpu_sys:([%d.]+)'), string.match(cpu, 'used_cpu_user:([%d.]+)')}`, 0))
	if err != nil {
		b.Fatal(err)
	}
	return 1e6 * (got[0] + got[1])
}

// BenchmarkReleaseAndAcquire measures the CPU time for which a master releases and acquires a key, where 26 keys are in one
// write. It compares the batch with commands that other libraries send, with DEL, which compares no token, and with a
// script that only receives its arguments, without and with all keys that the batch may touch beside those of the locks.
func BenchmarkReleaseAndAcquire(b *testing.B) {
	const keys = 26
	key := func(i int) string { return fmt.Sprint("name-", i) }
	token := func(n int) string { return fmt.Sprintf("%032d", n) }
	set := func(conn redis.Conn, i, n int) { conn.Send("SET", key(i), token(n), "NX", "PX", 10000) }
	compareAndDelete := redis.NewScript(1, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	members := func(n int) []any {
		var args []any
		for i := range keys {
			args = append(args, key(i), key(i))
		}
		args = append(args, "client-of-27-characters-000")
		for range keys {
			args = append(args, "release 10000 - 0", token(n-1), "register 10000 - 10000", token(n))
		}
		return args
	}
	var declared []any
	for i := range keys {
		for _, beginning := range besides["batch.lua"].keys {
			if !slices.Contains(notByKey, beginning) {
				declared = append(declared, beginning+key(i))
			}
		}
	}
	call := func(script *redis.Script, more ...any) func(redis.Conn, int) {
		return func(conn redis.Conn, n int) { script.SendHash(conn, append(slices.Clone(more), members(n)...)...) }
	}
	batch, nothing := redis.NewScript(2*keys, batchLua.text()), redis.NewScript(2*keys, "return 1")
	declaring := redis.NewScript(2*keys+len(declared), "return 1")
	sent := func(args []any) (bytes int) {
		for _, arg := range args {
			text := fmt.Sprint(arg)
			bytes += len(text) + len(fmt.Sprintf("$%d\r\n\r\n", len(text)))
		}
		return bytes
	}
	b.Logf("a call sends %d bytes a key, and %d more if all keys are declared", sent(members(1))/keys, sent(declared)/keys)
	for _, v := range []struct {
		name string
		send func(conn redis.Conn, n int)
	}{
		{"DEL and SET", func(conn redis.Conn, n int) {
			for i := range keys {
				conn.Send("DEL", key(i))
				set(conn, i, n)
			}
		}},
		{"compare-and-delete and SET", func(conn redis.Conn, n int) {
			for i := range keys {
				compareAndDelete.SendHash(conn, key(i), token(n-1))
				set(conn, i, n)
			}
		}},
		{"a script that does nothing", call(nothing)},
		{"a script that does nothing, all keys declared", call(declaring, declared...)},
		{"batch", call(batch)},
	} {
		b.Run(v.name, func(b *testing.B) {
			conn, err := redis.Dial("tcp", redisserver.StartTB(b, 1)[0].Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			for _, s := range []*redis.Script{compareAndDelete, batch, nothing} {
				if err := s.Load(conn); err != nil {
					b.Fatal(err)
				}
			}
			all, n := make(samples), 0
			for b.Loop() {
				before := cpuOf(b, conn)
				for range 200 {
					n++
					v.send(conn, n)
					if _, err := conn.Do(""); err != nil {
						b.Fatal(err)
					}
				}
				all.add("µs/key", (cpuOf(b, conn)-before)/200/keys)
			}
			all.report(b)
		})
	}
}
