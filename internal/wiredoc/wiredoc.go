// Package wiredoc runs the examples of docs/protocol.md on a server. That document describes the notation of the
// examples.
package wiredoc

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/wire"
)

// A step is one command with its expected answer, or one expected message.
type step struct {
	line    int    // in the document
	conn    string // "" for the main connection
	command string // "" for a message
	want    []string
}

// prompt matches a line that begins a command or a message, or continues a message.
var prompt = regexp.MustCompile(`^(\w*)([<>]) (.*)$`)

// parse returns the steps in those blocks of the document that are marked wire.
func parse(document string) (steps []step, err error) {
	inside, ended := false, true
	lines := bufio.NewScanner(strings.NewReader(document))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		m := prompt.FindStringSubmatch(line)
		switch {
		case line == "```wire":
			inside = true
		case strings.HasPrefix(line, "```"):
			inside, ended = false, true
		case !inside:
		case m != nil && m[2] == ">":
			steps = append(steps, step{line: n, conn: m[1], command: m[3]})
			ended = false
		case m != nil && !ended && steps[len(steps)-1].command == "" && steps[len(steps)-1].conn == m[1] && !strings.HasPrefix(m[3], "1) "):
			steps[len(steps)-1].want = append(steps[len(steps)-1].want, m[3])
		case m != nil:
			steps = append(steps, step{line: n, conn: m[1], want: []string{m[3]}})
			ended = false
		case ended:
			return nil, fmt.Errorf("line %d: an answer without a command", n)
		default:
			steps[len(steps)-1].want = append(steps[len(steps)-1].want, line)
		}
	}
	for _, s := range steps {
		if len(s.want) == 0 {
			return nil, fmt.Errorf("line %d: a command without an answer", s.line)
		}
	}
	return steps, lines.Err()
}

// A Runner runs the examples of a document.
type Runner struct {
	Root string                     // the directory of the repository
	Dial func() (redis.Conn, error) // connects to the server, which must be empty
	// Patience is the longest wait for each answer and each message.
	Patience time.Duration

	conns map[string]redis.Conn
	names map[string]string // the values that ?name has named
}

// Run runs the examples of a document in order. It stops at the first command whose answer differs from the
// document, and returns an error about it. It also returns how many commands had the answer that the document
// states.
func (r *Runner) Run(document string) (commands int, err error) {
	steps, err := parse(document)
	if err != nil {
		return 0, err
	}
	r.conns, r.names = make(map[string]redis.Conn), make(map[string]string)
	defer func() {
		for _, conn := range r.conns {
			conn.Close()
		}
	}()
	for _, s := range steps {
		got, err := r.do(s)
		if err != nil {
			return commands, fmt.Errorf("line %d: %w", s.line, err)
		}
		if err := r.match(strings.Join(s.want, "\n"), got); err != nil {
			return commands, fmt.Errorf("line %d: %s%s: %w", s.line, s.conn, s.command, err)
		}
		if s.command != "" {
			commands++
		}
	}
	return commands, nil
}

// do sends the command of a step, if it has one, and returns the answer or message that arrives.
func (r *Runner) do(s step) (string, error) {
	conn, ok := r.conns[s.conn]
	if !ok {
		var err error
		if conn, err = r.Dial(); err != nil {
			return "", err
		}
		r.conns[s.conn] = conn
	}
	if s.command != "" {
		args, err := r.arguments(s.command)
		if err != nil {
			return "", err
		}
		if err := conn.Send(args[0].(string), args[1:]...); err != nil {
			return "", err
		}
		if err := conn.Flush(); err != nil {
			return "", err
		}
	}
	reply, err := redis.ReceiveWithTimeout(conn, r.Patience)
	if failed, ok := err.(redis.Error); ok {
		return format(failed, ""), nil
	} else if err != nil {
		return "", err
	}
	return format(reply, ""), nil
}

// argument matches one argument of a command, quoted or not.
var argument = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`)

// inclusion matches the line of a script in whose place another file of its directory belongs. It may be indented.
var inclusion = regexp.MustCompile(`(?m)^( *)-- include (\S+)\n`)

// included returns the text of a script with the files that it includes, and the values of the constants that it names.
func included(text, dir string) (all string, err error) {
	all = inclusion.ReplaceAllStringFunc(text, func(line string) string {
		parts := inclusion.FindStringSubmatch(line)
		file, failed := os.ReadFile(filepath.Join(dir, parts[2]))
		if failed != nil {
			err = failed
		}
		return parts[1] + string(file)
	})
	return wire.Constants(all), err
}

func (r *Runner) arguments(command string) (args []any, err error) {
	for _, word := range argument.FindAllString(command, -1) {
		text := word
		switch {
		case strings.HasPrefix(word, `"`):
			if text, err = strconv.Unquote(word); err != nil {
				return nil, fmt.Errorf("the argument %s: %w", word, err)
			}
		case strings.HasPrefix(word, "@"):
			file, err := os.ReadFile(filepath.Join(r.Root, word[1:]))
			if err != nil {
				return nil, err
			}
			text, err := included(string(file), filepath.Dir(filepath.Join(r.Root, word[1:])))
			if err != nil {
				return nil, err
			}
			args = append(args, text)
			continue
		}
		if text, err = r.fill(text); err != nil {
			return nil, err
		}
		args = append(args, text)
	}
	return args, nil
}

// use matches the use of a named value.
var use = regexp.MustCompile(`\$\w+`)

// fill replaces each $name by the value that was named.
func (r *Runner) fill(text string) (string, error) {
	var unknown string
	text = use.ReplaceAllStringFunc(text, func(u string) string {
		value, ok := r.names[u[1:]]
		if !ok {
			unknown = u
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("%s is not named before", unknown)
	}
	return text, nil
}

// variable matches a part of an expected answer that is not literal.
var variable = regexp.MustCompile(`[$?]\w+|-?\d+\.\.-?\d+`)

// match returns an error unless got matches want. It records the values that want names.
func (r *Runner) match(want, got string) error {
	pattern, last := "^", 0
	var parts []string // the part of want for each group of the pattern
	for _, at := range variable.FindAllStringIndex(want, -1) {
		part := want[at[0]:at[1]]
		pattern += regexp.QuoteMeta(want[last:at[0]])
		if strings.Contains(part, "..") {
			pattern += `(-?\d+)`
		} else {
			pattern += `([^\s"]+)`
		}
		parts, last = append(parts, part), at[1]
	}
	groups := regexp.MustCompile(pattern + regexp.QuoteMeta(want[last:]) + "$").FindStringSubmatch(got)
	if groups == nil {
		return fmt.Errorf("the answer is\n%s\nwant\n%s", got, want)
	}
	for i, part := range parts {
		switch value := groups[i+1]; {
		case part[0] == '?':
			r.names[part[1:]] = value // a later part of the same answer may use it
		case part[0] == '$' && r.names[part[1:]] != value:
			return fmt.Errorf("the answer is\n%s\nwant %s to be %q", got, part, r.names[part[1:]])
		case part[0] != '$' && !inRange(part, value):
			return fmt.Errorf("the answer is\n%s\nwant a number in %s", got, part)
		}
	}
	return nil
}

// inRange reports whether a number is in a range a..b.
func inRange(limits, number string) bool {
	low, high, _ := strings.Cut(limits, "..")
	n, err := strconv.ParseInt(number, 10, 64)
	from, err1 := strconv.ParseInt(low, 10, 64)
	to, err2 := strconv.ParseInt(high, 10, 64)
	return err == nil && err1 == nil && err2 == nil && from <= n && n <= to
}

// format returns a reply as redis-cli prints it.
func format(reply any, indent string) string {
	switch r := reply.(type) {
	case nil:
		return "(nil)"
	case string:
		return r
	case []byte:
		return strconv.Quote(string(r))
	case int64:
		return "(integer) " + strconv.FormatInt(r, 10)
	case redis.Error:
		return "(error) " + string(r)
	case []any:
		if len(r) == 0 {
			return "(empty array)"
		}
		var lines []string
		for i, part := range r {
			number := strconv.Itoa(i+1) + ") "
			lines = append(lines, number+format(part, indent+strings.Repeat(" ", len(number))))
		}
		return strings.Join(lines, "\n"+indent)
	}
	return fmt.Sprintf("(a %T)", reply)
}
