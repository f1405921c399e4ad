package wire

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// besides are the keys that each script touches and does not declare, as the beginnings of their names. Behind most of them is a
// declared key. The table of docs/support.md has the same.
var besides = map[string]struct {
	text string
	keys []string
}{
	"batch.lua": {batchLua.text(), []string{"redlock:fence:", "redlock:incarnation", "redlock:intent:", "redlock:queue:", "redlock:readers:",
		"redlock:rqueue:", "redlock:waiter:"}},
	"set.lua": {setLua.text(), []string{"redlock:fence:", "redlock:queue:", "redlock:rqueue:"}},
	"slots.lua": {slotsLua.text(), []string{"redlock:fence:", "redlock:incarnation", "redlock:permits:", "redlock:taken:", "redlock:until:",
		"redlock:waiter:"}},
	"flight.lua":  {flightLua.text(), nil},
	"members.lua": {membersLua.text(), nil},
	"taken.lua":   {takenLua.text(), nil},
}

// notByKey are beginnings of keys that no declared key follows: one key of the server, and one for each client that waits. Nobody
// who sends a call knows which clients wait.
var notByKey = []string{"redlock:incarnation", "redlock:waiter:"}

// nameIn is a text in a script that begins as our keys and channels do.
var nameIn = regexp.MustCompile(`'redlock:[a-z]+:?`)

// TestTheScriptsNameTheKeysThatTheyDoNotDeclare compares the texts of the scripts, and the document, with the table.
func TestTheScriptsNameTheKeysThatTheyDoNotDeclare(t *testing.T) {
	document, err := os.ReadFile("../../docs/support.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range besides {
		code := regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(script.text, "")
		found := map[string]bool{}
		for _, text := range nameIn.FindAllString(code, -1) {
			found[text[1:]] = true
		}
		delete(found, WakeChannel)
		delete(found, ReadersMarker)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, script.keys) {
			t.Errorf("%s names %q, and the table has %q", name, got, script.keys)
		}
		if tagged := strings.HasPrefix(script.text, undeclared); tagged != (script.keys != nil) {
			t.Errorf("%s begins with %q: %v, and touches undeclared keys: %v", name, undeclared, tagged, script.keys != nil)
		}
		row := "| `" + name + "` | – |"
		if script.keys != nil {
			row = "| `" + name + "` | `" + strings.Join(script.keys, "`, `") + "` |"
		}
		if !strings.Contains(string(document), row) {
			t.Errorf("docs/support.md lacks the row %s", row)
		}
	}
}

// undeclared is the first line of a script that touches undeclared keys.
const undeclared = "--!df flags=allow-undeclared-keys\n"

// watchKeys checks at the end of a test that the calls of scripts on a real server have touched no key but the declared ones and
// those of besides.
func watchKeys(t *testing.T, address string) {
	t.Helper()
	dial := func() redis.Conn {
		conn, err := redis.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	monitor, asker := dial(), dial()
	if _, err := monitor.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer monitor.Close()
		defer asker.Close()
		const last = "no more calls"
		if _, err := asker.Do("ECHO", last); err != nil {
			t.Errorf("watching keys: %v", err)
			return
		}
		w := &keyWatch{T: t, asker: asker}
		for {
			line, err := redis.String(redis.ReceiveWithTimeout(monitor, 10*time.Second))
			if err != nil {
				t.Errorf("watching keys: %v", err)
				return
			}
			if strings.HasSuffix(line, strconv.Quote(last)) {
				return
			}
			w.line(line)
		}
	})
}

// A keyWatch reads the lines of MONITOR.
type keyWatch struct {
	*testing.T
	asker    redis.Conn
	script   string   // that of the last call
	declared []string // its keys
}

// scriptOf has the names of the scripts of besides by their texts and by their digests.
var scriptOf = func() map[string]string {
	names := make(map[string]string)
	for name, script := range besides {
		names[script.text], names[sha1Of(script.text)] = name, name
	}
	return names
}()

func (w *keyWatch) line(line string) {
	head, rest, found := strings.Cut(line, "] ") // the time, the database, and who sends it
	if !found {
		return // the answer to MONITOR
	}
	args := unquote(rest)
	name := strings.ToUpper(args[0])
	if !strings.HasSuffix(head, " lua") {
		if name == "EVALSHA" || name == "EVAL" {
			w.call(args[1:])
		}
		return
	}
	script, ours := besides[w.script]
	if !ours || len(args) == 1 {
		return // a script of the test, or TIME
	}
	keys, err := redis.Strings(w.asker.Do("COMMAND", redis.Args{"GETKEYS"}.AddFlat(args)...))
	if err != nil && !strings.Contains(err.Error(), "no key arguments") {
		w.Errorf("%q: %v", args, err)
	}
	for _, key := range keys {
		if !w.known(key, script.keys) {
			w.Errorf("%s has touched the undeclared key %q: %q of a call with the keys %q", w.script, key, args, w.declared)
		}
	}
}

// call notes a call of a script: its text or SHA, how many keys it has, and the keys.
func (w *keyWatch) call(args []string) {
	w.script, w.declared = scriptOf[args[0]], nil
	if n, err := strconv.Atoi(args[1]); err == nil {
		w.declared = args[2 : 2+n]
	}
}

// known reports whether a key is declared, or is one that the table has.
func (w *keyWatch) known(key string, beginnings []string) bool {
	if slices.Contains(w.declared, key) {
		return true
	}
	for _, beginning := range beginnings {
		rest, ok := strings.CutPrefix(key, beginning)
		if ok && (slices.Contains(notByKey, beginning) || slices.Contains(w.declared, rest) || slices.Contains(w.declared, slotsKey+rest)) {
			return true
		}
	}
	return false
}

// unquote returns the arguments of a command as MONITOR writes them.
func unquote(text string) (args []string) {
	for text != "" {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return append(args, text)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			arg = fmt.Sprintf("cannot read %s", quoted)
		}
		args = append(args, arg)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	return args
}
