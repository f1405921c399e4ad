package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/redlock-go/redlock/internal/fakeserver"
)

// Text of a server must not move the cursor, set the title, or hide a line of the terminal.
func TestNoControlCharacterOfAServerReachesTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;evil\a\x1b[2J\r\x1b[31m\u009b1A\u202e"
	isEvil := func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }
	for _, server := range []struct {
		name   string
		answer func(conn int, cmd []string) string
		want   string // in the doctor's table
	}{
		{"its errors", func(_ int, cmd []string) string { return "-ERR " + evil + "\r\n" }, "ERR ?]0;evil??[2J ?[31m"},
		{"its role", func(_ int, cmd []string) string {
			if cmd[0] == "INFO" {
				return fakeserver.Bulk("role:" + evil + "\tx\r\nrun_id:" + evil + "\r\n")
			}
			return "-ERR no\r\n"
		}, "must not vote: it is a replica"},
		{"the refusal of a command", func(_ int, cmd []string) string {
			if cmd[0] == "INFO" {
				return fakeserver.Bulk("role:master\r\nrun_id:" + evil + "\r\n")
			}
			return "-ERR " + evil + "\r\n"
		}, "refuses SET (ERR ?]0;evil?"},
		{"its policy", func(_ int, cmd []string) string {
			return fakeserver.Bulk("role:master\r\nmaxmemory:1\r\nmaxmemory_policy:" + evil + "\r\n")
		}, "its maxmemory-policy, ?]0;evil?"},
		{"its record", func(_ int, cmd []string) string {
			switch cmd[0] {
			case "INFO", "CLIENT":
				return fakeserver.Bulk("role:master\r\nid=3 db=" + evil + "\r\n")
			case "EVALSHA":
				return "*4\r\n" + fakeserver.Bulk("run 5 "+evil) + ":9000000000000000000\r\n" + fakeserver.Bulk(evil) + fakeserver.Bulk(evil)
			}
			return fakeserver.Bulk("x")
		}, "its record redlock:incarnation cannot be read: unexpected reply"},
		{"its locks", func(_ int, cmd []string) string {
			switch cmd[0] {
			case "SCAN":
				return "*2\r\n" + fakeserver.Bulk("0") + "*2\r\n" + fakeserver.Bulk("n") + fakeserver.Bulk(evil)
			case "GETRANGE":
				return fakeserver.Bulk("Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@" + evil)
			case "PTTL", "ZCARD":
				return ":5000\r\n"
			case "TIME":
				return "*2\r\n" + fakeserver.Bulk("1000") + fakeserver.Bulk("0")
			case "EVALSHA":
				return "*2\r\n" + fakeserver.Bulk("Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@"+evil) + fakeserver.Bulk("5")
			case "PUBSUB":
				return "*2\r\n" + fakeserver.Bulk(cmd[2]) + ":1\r\n"
			}
			return "-ERR " + evil + "\r\n"
		}, "access denied: ERR ?]0;evil?"},
		{"no protocol", func(_ int, cmd []string) string { return evil + "\r\n" }, "not reachable: "},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			addr := (&fakeserver.Server{Handle: server.answer}).ListenTB(t)
			for _, args := range [][]string{
				{"doctor", "--masters", "redis://:password@" + addr},
				{"doctor", "--masters", addr, "--adopt"},
				{"doctor", "--masters", addr, "--json"},
				{"status", "--masters", addr},
				{"status", "--masters", addr, "--json", "n", evil},
				{"status", "--masters", addr, "--prefix", "\x1b"},
				{"status", "--masters", addr, "--prefix", "\x1b", "--json"},
				{"break", "--masters", addr, "--force", "n"},
				{"run", "--masters", addr, "--wait", "0", "n", "--", "true"},
				{"run", "--masters", addr, "--wait", "1500ms", "n", "--", "true"},
			} {
				var out, errOut bytes.Buffer
				status := run(t.Context(), append([]string{"redlock"}, args...), strings.NewReader(""), &out, &errOut)
				if status != exitNoQuorum && args[0] != "status" && args[0] != "break" {
					t.Errorf("%q: exit status %d, want %d", args, status, exitNoQuorum)
				}
				for name, text := range map[string]string{"output": out.String(), "error": errOut.String()} {
					if strings.ContainsFunc(text, isEvil) {
						t.Errorf("%q: the standard %s has control characters: %q", args, name, text)
					}
				}
				if args[0] == "doctor" && args[len(args)-1] == "--adopt" && !strings.Contains(unfolded(out.String()), server.want) {
					t.Errorf("%q: %q, want it to say %q", args, out.String(), server.want)
				}
			}
		})
	}
}
