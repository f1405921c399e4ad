package wiredoc

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// block returns a document with one block marked wire, which has these lines.
func block(lines ...string) string {
	return "# A page\n\n```sh\n> not ours\n```\n\n```wire\n" + strings.Join(lines, "\n") + "\n```\n\nMore.\n"
}

func TestExamplesMustHaveTheAnswerThatTheDocumentSays(t *testing.T) {
	for _, tt := range []struct {
		name, document string
		want           int
		err            string // a part of the error; "" for no error
	}{
		{"no examples", "# A page\n", 0, ""},
		{"a status", block("> SET a 1", "OK"), 1, ""},
		{"another status", block("> SET a 1", "KO"), 0, "line 8: SET a 1: the answer is\nOK\nwant\nKO"},
		{"a string is no number", block("> SET a 1", "OK", "> GET a", "(integer) 1"), 1, `"1"`},
		{"nil", block("> GET a", "(nil)"), 1, ""},
		{"an error", block("> INCR", "(error) ERR wrong number of arguments for 'incr' command"), 1, ""},
		{"a list", block("> RPUSH l a b", "(integer) 2", "> LRANGE l 0 -1", `1) "a"`, `2) "b"`), 2, ""},
		{"a longer list", block("> RPUSH l a b", "(integer) 2", "> LRANGE l 0 -1", `1) "a"`), 1, `2) "b"`},
		{"an empty list", block("> LRANGE l 0 -1", "(empty array)"), 1, ""},
		{"a list in a list", block("> MULTI", "OK", "> RPUSH l a", "QUEUED", "> LRANGE l 0 -1", "QUEUED", "> EXEC", "1) (integer) 1", `2) 1) "a"`), 4, ""},
		{"in the range", block("> INCRBY a 7", "(integer) 5..9"), 1, ""},
		{"below the range", block("> INCRBY a -7", "(integer) -6..9"), 0, "want a number in -6..9"},
		{"a name is used", block("> SET a xyz", "OK", "> GET a", `"?what"`, "> SET $what b$what", "OK", "> GET xyz", `"bxyz"`), 4, ""},
		{"a name is wrong", block("> SET a xyz", "OK", "> GET a", `"?what"`, "> SET a abc", "OK", "> GET a", `"$what"`), 3, `want $what to be "xyz"`},
		{"a name in its own answer", block("> RPUSH l x x", "(integer) 2", "> LRANGE l 0 -1", `1) "?x"`, `2) "$x"`), 2, ""},
		{"another in its own answer", block("> RPUSH l x y", "(integer) 2", "> LRANGE l 0 -1", `1) "?x"`, `2) "$x"`), 1, "want $x"},
		{"no such name", block("> GET $a", "(nil)"), 0, "$a is not named before"},
		{"quoted arguments", block(`> SET "a b" "\x01\""`, "OK", `> GET "a b"`, `"\x01\""`), 2, ""},
		{"a file", block("> SET a @wiredoc.go", "OK", "> GETRANGE a 0 9", `"// Package"`), 2, ""},
		{"no such file", block("> SET a @nix", "OK"), 0, "nix"},
		{"a message", block("W> SUBSCRIBE c", `1) "subscribe"`, `2) "c"`, "3) (integer) 1", "> PUBLISH c m", "(integer) 1", `W< 1) "message"`, `W< 2) "c"`, `W< 3) "m"`), 2, ""},
		{"another message", block("W> SUBSCRIBE c", `1) "subscribe"`, `2) "c"`, "3) (integer) 1", "> PUBLISH c m", "(integer) 1", `W< 1) "message"`, `W< 2) "c"`, `W< 3) "n"`), 2, `3) "m"`},
		{"no message", block("W> SUBSCRIBE c", `1) "subscribe"`, `2) "c"`, "3) (integer) 1", `W< 1) "message"`), 1, "i/o timeout"},
		{"a command without an answer", block("> SET a 1", "> GET a", `"1"`), 0, "line 8: a command without an answer"},
		{"an answer without a command", block("OK"), 0, "line 8: an answer without a command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := miniredis.RunT(t)
			r := Runner{
				Root:     ".",
				Dial:     func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) },
				Patience: 5 * time.Second,
			}
			if tt.name == "no message" {
				r.Patience = 50 * time.Millisecond
			}
			commands, err := r.Run(tt.document)
			if commands != tt.want {
				t.Errorf("%d commands had their answers, want %d", commands, tt.want)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("Run = %v, want %q", err, tt.err)
			}
		})
	}
}
