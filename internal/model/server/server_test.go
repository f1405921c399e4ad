package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/executed"
)

// A scene is a master whose keys a test determines.
type scene struct {
	t    *testing.T
	spec *Server
	now  time.Time
	keys map[string]string // replies to GET and ZRANGE
	ends map[string]time.Time
	deaf string // a client without a subscription
}

func newScene(t *testing.T) *scene {
	return &scene{t: t, spec: New(), now: time.Unix(1_000_000, 0), keys: map[string]string{}, ends: map[string]time.Time{}}
}

// set says what a key holds, and for how long.
func (s *scene) set(key, value string, ttl time.Duration) {
	s.keys[key], s.ends[key] = value, s.now.Add(ttl)
}

// queue says what a sorted set holds: names and scores.
func (s *scene) queue(key string, members ...any) {
	reply := fmt.Sprintf("*%d\r\n", len(members))
	for _, m := range members {
		text := fmt.Sprint(m)
		if score, ok := m.(float64); ok {
			text = fmt.Sprintf("%.0f", score)
		}
		reply += encode(text)
	}
	s.set(key, reply, time.Minute)
}

func (s *scene) read(command ...string) string {
	switch {
	case command[0] == "PUBSUB":
		n := int64(1)
		if s.deaf != "" && strings.HasSuffix(command[2], ":"+s.deaf) {
			n = 0
		}
		return encode([]any{command[2], n})
	case command[0] == "INFO":
		return encode("run_id:abc\r\n")
	case command[0] == "ZRANGE" && s.keys[command[1]] == "":
		return "*0\r\n"
	case command[0] == "ZRANGE":
		return s.keys[command[1]]
	case s.keys[command[1]] == "":
		return encode(nil)
	}
	return encode(s.keys[command[1]])
}

// call has a step explained, in which do changes the keys.
func (s *scene) call(of Script, name, args string, reply any, published []executed.Message, do func()) error {
	s.t.Helper()
	c := &executed.Call{Now: s.now, Name: name, Args: strings.Split(args, "|"), Read: s.read,
		Left: func(key string) time.Duration { return s.ends[key].Sub(s.now) }}
	step := s.spec.Before(of, c)
	if step == nil {
		s.t.Fatalf("%s %s is not specified", name, args)
	}
	do()
	c.Reply, c.Published = encode(reply), published
	return s.spec.After(step)
}

// Each row is a call that a master must not execute in this way, beside one that it may.
func TestWhatAMasterMustNotDoIsNotExplained(t *testing.T) {
	const g = "W W1 400"
	told := func(client, text string) []executed.Message {
		return []executed.Message{{Channel: "redlock:wake:" + client, Text: text}}
	}
	grant := told("W", "+ W1 abc 99 0 k")
	for _, row := range []struct {
		name      string
		holds     string // before
		queue     []any
		script    Script
		args      string
		reply     any
		published []executed.Message
		after     string // the key
		ttl       time.Duration
		left      []any  // the queue
		want      string // in the error; "": it is explained
	}{
		{"a free key is set", "", nil, None, "k|a|NX|PX|9000", okay, nil, "a", 9 * time.Second, nil, ""},
		{"a key is set that another holds", "b", nil, None, "k|a|NX|PX|9000", okay, nil, "a", 9 * time.Second, nil, "the answer is"},
		{"a key is set for longer", "", nil, None, "k|a|NX|PX|9000", okay, nil, "a", 10 * time.Second, nil, "the key lives until"},
		{"a release", "a", nil, Batch, "1|k|A|release 0|a", int64(1), nil, "", 0, nil, ""},
		{"a release of another token", "b", nil, Batch, "1|k|A|release 0|a", int64(1), nil, "", 0, nil, "the answer is"},
		{"a release that leaves the key", "a", nil, Batch, "1|k|A|release 0|a", int64(1), nil, "a", time.Second, nil, `the key holds "a", want ""`},
		{"a release is a grant", "a", []any{g, 1.0}, Batch, "1|k|A|release 0|a", int64(2), grant, "W1", 400 * time.Millisecond, nil, ""},
		{"a grant that is not told", "a", []any{g, 1.0}, Batch, "1|k|A|release 0|a", int64(2), nil, "W1", 400 * time.Millisecond, nil, "the messages are"},
		{"a grant that is told to another", "a", []any{g, 1.0}, Batch, "1|k|A|release 0|a", int64(2), told("X", "+ W1 abc 99 0 k"), "W1", 400 * time.Millisecond, nil, "the messages are"},
		{"a grant of another run", "a", []any{g, 1.0}, Batch, "1|k|A|release 0|a", int64(2), told("W", "+ W1 abd 99 0 k"), "W1", 400 * time.Millisecond, nil, "the messages are"},
		{"a grant to the second", "a", []any{"V V1 400", 1.0, g, 2.0}, Batch, "1|k|A|release 0|a", int64(2), grant, "W1", 400 * time.Millisecond, []any{"V V1 400", 1.0}, "the messages are"},
		{"a grant that stays in the queue", "a", []any{g, 1.0}, Batch, "1|k|A|release 0|a", int64(2), grant, "W1", 400 * time.Millisecond, []any{g, 1.0}, "the queue is"},
		{"a renewal", "a", nil, Batch, "1|k|A|renew 9000|a", int64(1), nil, "a", 9 * time.Second, nil, ""},
		{"a renewal that sets the key anew", "", nil, Batch, "1|k|A|renew 9000|a", int64(1), nil, "a", 9 * time.Second, nil, "the answer is"},
		{"a claim near the front is not told", "a", []any{g, 1.0, "X X1 400", 2.0, "Y Y1 400", 3.0, "Z Z1 400", 4.0}, Batch, "1|k|A|release 0|a", int64(2), grant, "W1",
			400 * time.Millisecond, []any{"X X1 400", 2.0, "Y Y1 400", 3.0, "Z Z1 400", 4.0}, "do not have"},
		{"a reader beside a writer", "a", nil, Readers, "1|k|R|read 9000 0 20|r", int64(1), nil, "a", time.Second, nil, "the answer is"},
		{"one of two names", "", nil, Set, "2|k|l|A|acquire|9000||a", int64(1), nil, "a", 9 * time.Second, nil, `"l": the key holds`},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			if row.holds != "" {
				s.set("k", row.holds, time.Second)
			}
			s.queue("redlock:queue:k", row.queue...)
			name := "EVALSHA"
			if row.script == None {
				name = "SET"
			}
			err := s.call(row.script, name, row.args, row.reply, row.published, func() {
				s.set("k", row.after, row.ttl)
				s.queue("redlock:queue:k", row.left...)
			})
			switch {
			case row.want == "" && err != nil:
				t.Errorf("not explained: %v", err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("explained, or not for this reason: %v, want %q", err, row.want)
			}
		})
	}
}

// A client without a subscription is not granted the lock, and a subscription that ends during a call explains either.
func TestAClientThatHasEndedIsPassedOver(t *testing.T) {
	s := newScene(t)
	s.set("k", "a", time.Second)
	s.queue("redlock:queue:k", "V V1 400", 1.0, "W W1 400", 2.0)
	err := s.call(Batch, "EVALSHA", "1|k|A|release 0|a", int64(2), []executed.Message{{Channel: "redlock:wake:W", Text: "+ W1 abc 99 0 k"}}, func() {
		s.deaf = "V"
		s.set("k", "W1", 400*time.Millisecond)
		s.queue("redlock:queue:k")
	})
	if err != nil {
		t.Error(err)
	}
}

// What expires is forgotten at that moment, and keys that were changed by other means are read anew.
func TestAStepFollowsFromWhatTheKeysAre(t *testing.T) {
	s := newScene(t)
	set := func(token string) error {
		return s.call(None, "SET", "k|"+token+"|NX|PX|1000", okay, nil, func() { s.set("k", token, time.Second) })
	}
	if err := set("a"); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Second - 1)
	if err := set("b"); err == nil {
		t.Error("a key is set a moment before it expires")
	}
	s.now = s.now.Add(time.Second)
	if err := set("c"); err != nil {
		t.Error("a key is set when it expires:", err)
	}
	delete(s.keys, "k")
	s.spec.Forget()
	if err := set("d"); err != nil {
		t.Error("a key is set that was deleted by other means:", err)
	}
}
