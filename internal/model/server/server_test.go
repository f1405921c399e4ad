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

	fields map[string]string // replies to HGETALL
	ends   map[string]time.Time
	deaf   string // a client without a subscription
}

func newScene(t *testing.T) *scene {
	return &scene{t: t, spec: New(), now: time.Unix(1_000_000, 0), keys: map[string]string{}, fields: map[string]string{}, ends: map[string]time.Time{}}
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
	case command[0] == "HGETALL":
		return s.fields[command[1]]
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
		{"a reader beside a writer", "a", nil, Batch, "1|k|R|readers register 9000 0 400|r", int64(1), nil, "a", time.Second, nil, "the answer is"},
		{"a value", "a", []any{g, 1.0}, Flight, "2|k|redlock:queue:k|a|v", int64(1), told("W", "! W1 a 1 kv"), "a", time.Second, []any{g, 1.0}, ""},
		{"a value of an unsure holder", "a", []any{g, 1.0}, Flight, "2|k|redlock:queue:k|a|v|1", int64(1), told("W", "; W1 a 1 kv"), "a", time.Second, []any{g, 1.0}, ""},
		{"a value of an unsure holder as that of a sure one", "a", []any{g, 1.0}, Flight, "2|k|redlock:queue:k|a|v|1", int64(1), told("W", "! W1 a 1 kv"), "a", time.Second, []any{g, 1.0}, "the messages are"},
		{"a value of another", "b", []any{g, 1.0}, Flight, "2|k|redlock:queue:k|a|v", int64(1), told("W", "! W1 a 1 kv"), "b", time.Second, []any{g, 1.0}, "the answer is"},
		{"another value", "a", []any{g, 1.0}, Flight, "2|k|redlock:queue:k|a|v", int64(1), told("W", "! W1 a 1 kw"), "a", time.Second, []any{g, 1.0}, "the messages are"},
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

// slots says what a semaphore has: fields, each with its value, and slots with the ms for which they live on.
func (s *scene) slots(fields string, until ...any) {
	var all []any
	for text := range strings.SplitSeq(fields, "|") {
		all = append(all, text)
	}
	if fields == "" {
		all = nil
	}
	s.fields[slotsPrefix+"a"] = encode(all)
	s.ends[slotsPrefix+"a"] = s.now.Add(time.Minute)
	for i := 1; i < len(until); i += 2 {
		until[i] = float64(s.now.UnixMilli()) + until[i].(float64)
	}
	s.queue("redlock:until:a", until...)
}

// Each row is a call on a semaphore with a limit of 2 that a master must not execute in this way, beside one that it may.
func TestWhatAMasterMustNotDoWithSlotsIsNotExplained(t *testing.T) {
	const (
		key     = slotsPrefix + "a"
		stands  = "@A|A 400 2 - 0|0|A|limit|2"
		both    = stands + "|@B|B 400 2 - 1|1|B"
		waits   = "W W 400 1 2 0"
		granted = "@W|W 400 2 - 0|0|W|limit|2"
		term    = " 400 2 1 0 400 "
	)
	answer := func(n int64, slots, standing string, fresh, other, rank int64) any {
		return []any{n, slots, standing, fresh, other, rank}
	}
	told := []executed.Message{{Channel: "redlock:wake:W", Text: "* W abc 99 0 " + key}}
	for _, row := range []struct {
		name        string
		before      string
		until       []any
		queue       []any
		word, token string // by the client with this id
		reply       any
		published   []executed.Message
		after       string
		left        []any
		queued      []any
		want        string
	}{
		{"a free slot", "", nil, nil, "register 900 2 1 0 400 -", "A", answer(1, "0", "", 1, 0, 0), nil, stands, []any{"0", 900.0}, nil, ""},
		{"for longer", "", nil, nil, "register 900 2 1 0 400 -", "A", answer(1, "0", "", 1, 0, 0), nil, stands, []any{"0", 901.0}, nil, "the slots are"},
		{"another slot than the first", "", nil, nil, "register 900 2 1 0 400 -", "A", answer(1, "1", "", 1, 0, 0), nil, "@A|A 400 2 - 1|1|A|limit|2", []any{"1", 900.0}, nil, "the answer is"},
		{"more than the limit", both, []any{"0", 50.0, "1", 60.0}, nil, "register 900 2 1 2 400 -", "C", answer(1, "2", "", 1, 0, 0), nil, both + "|@C|C 400 2 - 2|2|C",
			[]any{"0", 50.0, "1", 60.0, "2", 900.0}, nil, "the answer is"},
		{"a release", both, []any{"0", 50.0, "1", 60.0}, nil, "release 2 1 0 400", "B", int64(1), nil, stands, []any{"0", 50.0}, nil, ""},
		{"a release of another token", both, []any{"0", 50.0, "1", 60.0}, nil, "release 2 1 0 400", "B", int64(1), nil, "@B|B 400 2 - 1|1|B|limit|2", []any{"1", 60.0}, nil, "the slots are"},
		{"a release that leaves the slot", stands, []any{"0", 50.0}, nil, "release 2 1 0 400", "A", int64(1), nil, stands, []any{"0", 50.0}, nil, "the slots are"},
		{"a release is a grant", stands, []any{"0", 50.0}, []any{waits, 999_999_000_000.0}, "release 2 1 0 400", "A", int64(1), told, granted, []any{"0", 400.0}, nil, ""},
		{"a grant that is not told", stands, []any{"0", 50.0}, []any{waits, 999_999_000_000.0}, "release 2 1 0 400", "A", int64(1), nil, granted, []any{"0", 400.0}, nil, "the messages are"},
		{"a grant that stays in the queue", stands, []any{"0", 50.0}, []any{waits, 999_999_000_000.0}, "release 2 1 0 400", "A", int64(1), told, granted, []any{"0", 400.0}, []any{waits, 999_999_000_000.0}, "the queue is"},
		{"a grant to nobody", stands, []any{"0", 50.0}, []any{waits, 999_999_000_000.0}, "release 2 1 0 400", "A", int64(1), nil, "", nil, []any{waits, 999_999_000_000.0}, "the messages are"},
		{"a renewal", stands, []any{"0", 50.0}, nil, "renew 900 0", "A", int64(1), nil, stands, []any{"0", 900.0}, nil, ""},
		{"a renewal of another's slot", stands, []any{"0", 50.0}, nil, "renew 900 0", "B", int64(1), nil, "@B|B 400 2 - 0|0|B|limit|2", []any{"0", 900.0}, nil, "the answer is"},
		{"a slot that is wished", both, []any{"0", 50.0, "1", 60.0}, nil, "aim" + term + "0 0", "C", answer(-52, "", "0=A", 1, 0, 0), nil,
			both + "|@C|C 400 2 ! |w0|C 1000000400 1|crossed|0", []any{"0", 50.0, "1", 60.0}, nil, ""},
		{"a slot that is taken from another", both, []any{"0", 50.0, "1", 60.0}, nil, "aim" + term + "0 0", "C", answer(402, "0", "0=C", 1, 0, 0), nil,
			"@C|C 400 2 ! 0|0|C|limit|2|@B|B 400 2 - 1|1|B", []any{"0", 400.0, "1", 60.0}, nil, "the answer is"},
		{"a wish of which nothing is kept", both, []any{"0", 50.0, "1", 60.0}, nil, "aim" + term + "0 0", "C", answer(-52, "", "0=A", 1, 0, 0), nil,
			both, []any{"0", 50.0, "1", 60.0}, nil, "the wishes are"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			s.slots(row.before, row.until...)
			s.queue("redlock:permits:a", row.queue...)
			err := s.call(Slots, "EVALSHA", strings.Join([]string{"1", key, row.token, row.word, row.token}, "|"), row.reply, row.published, func() {
				s.slots(row.after, row.left...)
				s.queue("redlock:permits:a", row.queued...)
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
