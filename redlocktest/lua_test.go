package redlocktest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/farexpiry"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// TestScriptsOfRedlockBehaveAsInMiniredis replays the calls of clients, some with changed arguments, on a master that executes the
// scripts itself, and on one that leaves them to miniredis. The replies, the errors and the memories must be equal.
func TestScriptsOfRedlockBehaveAsInMiniredis(t *testing.T) {
	calls := callsOfClients(t)
	for _, row := range []struct {
		name    string
		changed int // of a hundred calls
	}{{"as sent", 0}, {"some changed", 20}, {"half changed", 50}, {"most changed", 90}} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) { replay(t, calls, row.changed) })
		})
	}
}

// callsOfClients returns the calls of scripts by clients that use everything. Each script of redlock is among them, in the form that all processes share.
func callsOfClients(t *testing.T) (calls [][]string) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := StartN(t, 1)
		var wg sync.WaitGroup
		for range 3 {
			c := ms.Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: 2 * time.Second}})
			kept, err := c.NewLocker("kept", &redlock.LockOptions{Keep: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			rw, gpus := c.RWLocker("rw"), c.Semaphore("gpus", 3)
			for _, use := range []func(){
				func() { lockFor(c.Locker("a"), 10*time.Millisecond) },
				func() { lockFor(c.Locker("a", "b"), 10*time.Millisecond) },
				func() { lockFor(kept, time.Millisecond) },
				func() { lockFor(rw, 10*time.Millisecond) },
				func() { lockFor(rw.RLocker(), 30*time.Millisecond) },
				func() {
					p := acquire(t, gpus, 2)
					time.Sleep(20 * time.Millisecond)
					p.Release()
				},
				func() {
					c.SingleFlight(t.Context(), "page", func(context.Context) ([]byte, error) { return []byte("p"), nil })
				},
				func() {
					c.Inspect(t.Context(), "a")
					c.InspectSemaphore(t.Context(), "gpus")
				},
			} {
				wg.Go(func() {
					for range 8 {
						use()
					}
				})
			}
			wg.Go(func() { lockFor(c.Locker("long"), 3*time.Second) }) // it is renewed
		}
		wg.Wait()
		m := ms.Master(0)
		m.mu.Lock()
		defer m.mu.Unlock()
		generic := make(map[string]string) // the digest of a script by that of its text for the master's process
		for _, text := range wire.OwnOf(m.run).Texts() {
			i := slices.IndexFunc(wire.AllScripts(), func(script string) bool { return wire.Name(script) == wire.Name(text) })
			generic[digest(text)] = digest(wire.AllScripts()[i])
		}
		for _, command := range m.log {
			if command[0] == "EVALSHA" {
				command[1] = cmp.Or(generic[command[1]], command[1])
				calls = append(calls, command)
			}
		}
	})
	for sha := range own() {
		if !slices.ContainsFunc(calls, func(call []string) bool { return call[1] == sha }) {
			t.Errorf("no client has called the script %s", sha)
		}
	}
	return calls
}

func lockFor(l sync.Locker, d time.Duration) {
	l.Lock()
	time.Sleep(d)
	l.Unlock()
}

// replay sends calls to two masters, the same at the same time.
func replay(t *testing.T, calls [][]string, changed int) {
	fast, slow := StartN(t, 1), StartN(t, 1)
	slow.Master(0).run = fast.Master(0).run // scripts read it
	slow.Master(0).Adopt()
	conns := []redis.Conn{connect(t, fast), connect(t, slow)}
	for _, c := range conns {
		must(t, c, "OK", "SELECT", "0") // so miniredis executes the scripts of this connection
		for _, text := range append(wire.AllScripts(), incarnation.Script()) {
			must(t, c, digest(text), "SCRIPT", "LOAD", text)
		}
	}
	conns[0] = connect(t, fast)
	r := rand.New(rand.NewPCG(1, uint64(changed)))
	failed := 0
	for _, call := range calls {
		if r.IntN(100) < changed {
			call = change(r, call, calls)
		}
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		var said [2]string
		for i, c := range conns {
			reply, err := c.Do("EVALSHA", redis.Args{}.AddFlat(call[1:])...)
			said[i] = fmt.Sprintf("%q %v", reply, err)
			if i == 0 && err != nil {
				failed++
			}
		}
		if said[0] != said[1] {
			t.Fatalf("%q:\n%s\nby miniredis:\n%s", call, said[0], said[1])
		}
		if a, b := memory(fast.Master(0)), memory(slow.Master(0)); a != b {
			t.Fatalf("after %q the memory is\n%s\nby miniredis:\n%s", call, a, b)
		}
	}
	if len(calls) < 500 || changed > 0 && failed < 20 {
		t.Errorf("%d calls, of which %d failed: too few", len(calls), failed)
	}
}

// memory returns the keys of a master with their values and the times at which they expire.
func memory(m *Master) string {
	var b strings.Builder
	b.WriteString(m.mini.Dump())
	for _, key := range m.mini.Keys() {
		fmt.Fprintln(&b, key, m.TTL(key))
	}
	return b.String()
}

// change returns a call with another argument in one place, or with one more or less.
func change(r *rand.Rand, call []string, calls [][]string) []string {
	call = slices.Clone(call)
	other := calls[r.IntN(len(calls))]
	argument := other[1+r.IntN(len(other)-1)]
	if r.IntN(3) == 0 {
		argument = []string{"", "-1", "0", "1", "1e3", "nan", "%s %d", "käse\n", "9223372036854775807"}[r.IntN(9)]
	}
	switch at := 2 + r.IntN(len(call)-2); r.IntN(3) {
	case 0:
		return slices.Insert(call, at, argument)
	case 1:
		if len(call) > 3 {
			return slices.Delete(call, at, at+1)
		}
	}
	call[2+r.IntN(len(call)-2)] = argument
	return call
}

// TestScriptsUseOnlyWhatAnInterpreterHas reads the scripts of redlock, as some of their lines are seldom executed.
func TestScriptsUseOnlyWhatAnInterpreterHas(t *testing.T) {
	i := newInterpreter(nil)
	used := 0
	for _, text := range append(wire.AllScripts(), incarnation.Script()) {
		if own()[digest(text)] == nil {
			t.Errorf("this is not valid Lua:\n%s", text)
		}
		code := regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
		for _, name := range regexp.MustCompile(`\b(redis|string|table|math|os|cjson|bit|struct|debug|coroutine)\.(\w+)`).FindAllString(code, -1) {
			used++
			if err := i.state.DoString("assert(" + name + ")"); err != nil {
				t.Errorf("a script uses %s: %v", name, err)
			}
		}
	}
	if used < 100 {
		t.Errorf("only %d uses were seen", used)
	}
}

func TestAScriptCannotLeaveAGlobal(t *testing.T) {
	i := newInterpreter(nil)
	for code, want := range map[string]string{
		"left = 1":     "Script attempted to create global variable 'left'",
		"return right": "Script attempted to access nonexistent global variable 'right'",
	} {
		if err := i.state.DoString(code); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", code, err, want)
		}
	}
}

// TestAnInterpreterRepliesAsMiniredis executes scripts that show how values and errors pass between Lua and Redis.
func TestAnInterpreterRepliesAsMiniredis(t *testing.T) {
	// The interpreter has a line number of its own where a global does not exist, and names another script where a command is not
	// allowed.
	shown := regexp.MustCompile(`[0-9a-f]{40}|(<string>)?:\d+|<(<string>)?:\d+>`)
	m := StartN(t, 1).Master(0)
	i := newInterpreter(m.scripts.context(m.srv))
	for _, text := range []string{
		"return", "return nil", "return true", "return false", "return 3.9", "return -1e15", "return 'käse\\n'", "return {}",
		"return {1, 'a', {2, {}}, false, true, nil, 3}", "return {ok = 'fine'}", "return {err = 'ERR no good\\n'}", "return {1, x = 2}",
		"return KEYS", "return ARGV", "return {#KEYS, #ARGV, KEYS[3], ARGV[2]}", "KEYS[1] = 'x'; return KEYS",
		"return redis.call('SET', KEYS[1], ARGV[1])", "return redis.call('GET', KEYS[1])", "return redis.call('GET', 'none')",
		"return redis.call('RPUSH', 'list', 1, 2.5, '3')", "return redis.call('LRANGE', 'list', 0, -1)",
		"return redis.call('MGET', KEYS[1], 'none', 'list')", "return type(redis.call('GET', 'none'))", "return type(redis.call('PING'))",
		"return redis.call('PING').ok", "return redis.call('GET', 'list')", "return redis.pcall('GET', 'list')", "return redis.pcall('GET', 'list').err",
		"return redis.call('GET')", "return redis.pcall('GET')", "return redis.call('NOPE', 1)", "return redis.pcall('NOPE', 1)",
		"return redis.call('MULTI')", "return redis.pcall('EVAL', 'return 1', 0)", "return redis.call()", "return redis.pcall()",
		"return redis.call('SET', {}, 1)", "return redis.pcall('SET', true, 1)", "return redis.error_reply('short')",
		"return redis.error_reply('-short')", "return redis.error_reply('-MORE words')", "return redis.error_reply('')", "return redis.error_reply(7)",
		"return redis.sha1hex('a')", "return redis.sha1hex()", "return redis.sha1hex(1)", "error('on purpose')", "error('%d of %s')",
		"local x = nil; return x.y", "return missing", "made = 1", "return pcall(error, 'inner')", "local ok, e = pcall(redis.call, 'GET', 'list'); return e",
		"return string.format('%.0f', 2^53)", "return tostring(1e15)", "return {string.find('a b', ' ', 1, true)}", "return {string.match('a b', '^(%S*) (%S+)')}", "return {string.match('a b', '^(%S*) (%S+)')}",
		"return {string.match('ab', '()b()')}", "return string.match('ab', 'b')", "return string.match('ab', 'x')", "return {string.match('ab', 'x'), 1}",
		"return {string.match('ab', 'x')}", "return string.match('ab', '(')", "return string.match('ab', '(')", "return string.match(12, '%d')",
		"return string.match('aba', 'a', 2)", "return string.match('ab')", "return ('x=1'):match('=(.*)')", "return string.match({}, 'a')", "return {unpack({1, 2, 3})}",
		"return math.max(1, 2, 3) + math.floor(2.7)", "return table.concat({'a', 'b'}, ',')", "local function f() return f() end; return 1",
	} {
		if farexpiry.Needed && text == "return -1e15" {
			continue // miniredis cuts it to 32 bits
		}
		script, err := compile(text)
		if err != nil {
			t.Fatal(err)
		}
		keys, args := []string{"a", "b"}, []string{"1", "two", ""}
		var got bytes.Buffer
		w := bufio.NewWriter(&got)
		m.mini.Lock()
		ok := i.run(m.srv, server.NewPeer(w), script, digest(text), keys, args)
		m.mini.Unlock()
		w.Flush()
		if !ok {
			i = newInterpreter(m.scripts.context(m.srv))
		}
		m.Del("list") // what the scripts change
		want := reply(m.srv, slices.Concat([]string{"EVAL", text, "2"}, keys, args)...)
		m.Del("list")
		if shown.ReplaceAllString(got.String(), "") != shown.ReplaceAllString(want, "") {
			t.Errorf("%s:\n%q, by miniredis\n%q", text, got.String(), want)
		}
	}
}
