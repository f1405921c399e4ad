package redlocktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// TestScriptsBehaveAsInRedis loads and calls scripts in all ways. Whether an earlier test has loaded the same script
// makes no difference.
func TestScriptsBehaveAsInRedis(t *testing.T) {
	script := redis.NewScript(1, increments)
	for _, row := range []struct{ name, commands, want string }{
		{"loaded, called, executed again", "load; call; call; exists", "SHA, 2, 4, [1]"},
		{"unknown", "call; exists", "NOSCRIPT, [0]"},
		{"loaded twice", "load; load; call", "SHA, SHA, 2"},
		{"flushed", "load; call; flush; exists; call", "SHA, 2, OK, [0], NOSCRIPT"},
		{"flushed and loaded", "load; flush; load; call", "SHA, OK, SHA, 2"},
		{"called and loaded in a transaction", "load; multi; call; load; exec; call", "SHA, OK, QUEUED, QUEUED, [2 SHA], 4"},
		{"loaded in a transaction only", "multi; load; call; exec; call", "OK, QUEUED, QUEUED, [SHA 2], 4"},
		{"a transaction that is discarded", "multi; load; discard; call; load; call", "OK, QUEUED, OK, NOSCRIPT, SHA, 2"},
		{"flushed in a transaction", "load; multi; flush; call; exec; call", "SHA, OK, QUEUED, QUEUED, [OK NOSCRIPT], NOSCRIPT"},
		{"called by a reader", "load; read", "SHA, ERR Error compiling script (new function): :1: Write commands are not allowed"},
		{"a subscriber", "load; subscribe; load; call", "SHA, SUBSCRIBED, ERR Can't execute 'script', ERR Can't execute 'evalsha'"},
		{"no Lua", "invalid; invalid; load", "ERR Error compiling, ERR Error compiling, SHA"},
		{"too few arguments", "SCRIPT LOAD; EVALSHA", "ERR unknown subcommand or wrong number of arguments for 'LOAD', ERR wrong number of arguments"},
	} {
		t.Run(row.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, _ func()) {
				c := connect(t, StartN(t, 1))
				var got []string
				for command := range strings.SplitSeq(row.commands, "; ") {
					words := strings.Fields(strings.NewReplacer("load", "script load TEXT", "invalid", "script load end",
						"call", "evalsha SHA 1 key 2", "read", "evalsha_ro SHA 1 key 2", "exists", "script exists SHA",
						"flush", "script flush", "subscribe", "subscribe channel").Replace(command))
					var args []any
					for _, w := range words[1:] {
						args = append(args, strings.NewReplacer("TEXT", increments, "SHA", script.Hash()).Replace(w))
					}
					got = append(got, said(c.Do(words[0], args...)))
				}
				want := strings.Split(row.want, ", ")
				for i := range want {
					if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
						t.Fatalf("%s: %q, want %q", row.commands, got, want)
					}
				}
			})
		})
	}
}

const increments = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

// said returns a reply as text.
func said(reply any, err error) string {
	if err != nil {
		return err.Error()
	}
	switch r := reply.(type) {
	case []byte:
		return strings.ReplaceAll(string(r), redis.NewScript(1, increments).Hash(), "SHA")
	case []any:
		if len(r) == 3 {
			return "SUBSCRIBED"
		}
		var parts []string
		for _, p := range r {
			parts = append(parts, said(p, nil))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case redis.Error:
		return strings.Fields(string(r))[0]
	}
	return fmt.Sprint(reply)
}
