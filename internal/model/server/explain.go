package server

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/executed"
)

// A Script is a script whose calls the specification explains.
type Script int

// The scripts, and commands that are none.
const (
	None   Script = iota // SET
	Batch                // batch.lua
	Set                  // set.lua
	Slots                // slots.lua
	Flight               // flight.lua
)

// A Step is a call that a master executes. Its Server explains it when it has been executed.
type Step struct {
	of          Script
	call        *executed.Call
	keys, args  []string
	subscribers map[string]bool // before the call, by client
	locks       []*Lock         // after it, by key, if it was explained; nil for a semaphore
	semaphores  []*Semaphore    // likewise; nil for a lock
}

// Before notes what the specification needs to know before a call is executed. It returns nil if the call changes nothing that
// the specification is about.
func (s *Server) Before(of Script, call *executed.Call) *Step {
	step := &Step{of: of, call: call}
	if of == None {
		if id, is := strings.CutPrefix(strings.Join(call.Args, " "), "redlock:waiter:"); is && call.Name == "DEL" {
			delete(s.notes, id) // its client has closed
		}
		if call.Name != "SET" || len(call.Args) != 5 || call.Args[2] == "XX" { // the last is a wire.Trial, whose key does not exist
			return nil
		}
		step.keys = call.Args[:1]
	} else {
		n := int(number(call.Args[0]))
		step.keys, step.args = call.Args[1:1+n], call.Args[1+n:]
		if of == Flight {
			step.keys = step.keys[:1] // behind it is that of its queue
		}
	}
	for _, key := range step.keys {
		switch {
		case of == Slots && s.semaphores[key] == nil:
			s.semaphores[key] = loadSemaphore(call, key)
		case of != Slots && s.locks[key] == nil:
			s.locks[key] = load(call, key)
		}
	}
	s.expire(call.Now)
	s.loadNotes(step)
	step.subscribers = s.subscribers(step)
	return step
}

// Forget forgets what the specification knows: keys were changed by other means. It is read anew.
func (s *Server) Forget() {
	clear(s.locks)
	clear(s.semaphores)
	clear(s.notes)
}

// clients returns the client of a step, and those that stand in the queues of its locks or semaphores, and in slots.
func (s *Server) clients(step *Step) (all []string) {
	if len(step.args) > 0 && step.of != Flight {
		all = append(all, step.args[0])
	}
	for _, key := range step.keys {
		if step.of == Slots {
			all = append(all, s.semaphores[key].clients()...)
			continue
		}
		l := s.lock(key)
		for _, m := range slices.Concat(l.queue, l.waiting) {
			all = append(all, parse(m.name).client)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// subscribers returns which of the clients have a subscription.
func (s *Server) subscribers(step *Step) map[string]bool {
	have := map[string]bool{}
	for _, client := range s.clients(step) {
		have[client] = !strings.HasSuffix(step.call.Read("PUBSUB", "NUMSUB", "redlock:wake:"+client), ":0\r\n")
	}
	return have
}

// loadNotes reads the notes of clients that are not known.
func (s *Server) loadNotes(step *Step) {
	for _, client := range s.clients(step) {
		if _, ok := s.notes[client]; ok {
			continue
		}
		var n note
		if _, err := fmt.Sscan(text(step.call.Read("GET", "redlock:waiter:"+client)), &n.till, &n.far); err == nil {
			n.until = step.call.Now.Add(left(step.call, "redlock:waiter:"+client))
			s.notes[client] = n
		}
	}
}

// After explains a step that has been executed. The error says what the specification would have had the master do. A client's
// subscription may begin or end while the call is executed, so either is accepted then.
func (s *Server) After(step *Step) error {
	next, err := s.explain(step, step.subscribers)
	if err != nil {
		if after := s.subscribers(step); fmt.Sprint(after) != fmt.Sprint(step.subscribers) {
			if n, e := s.explain(step, after); e == nil {
				next, err = n, nil
			}
		}
	}
	if err != nil {
		for _, key := range step.keys { // so that it explains what follows
			if step.of == Slots {
				s.semaphores[key] = loadSemaphore(step.call, key)
			} else {
				s.locks[key] = load(step.call, key)
			}
		}
		clear(s.notes)
		return err
	}
	*s = *next
	for _, key := range step.keys {
		step.locks, step.semaphores = append(step.locks, s.locks[key]), append(step.semaphores, s.semaphores[key])
	}
	return nil
}

// explain executes the step as the specification has it, and compares the answer, the messages and what the keys hold.
func (s *Server) explain(step *Step, subscribers map[string]bool) (*Server, error) {
	next := s.clone(step.keys)
	if strings.HasPrefix(step.call.Reply, "-NOSCRIPT") {
		return next, nil
	}
	c := &call{Server: next, now: step.call.Now, micros: micros(step.call.Now)}
	c.subscribed = func(client string) bool { return subscribers[client] }
	c.deaf = func(client string) bool { is, known := subscribers[client]; return known && !is }
	c.run = func() string { return runOf(step.call.Read("INFO", "server")) }
	want := c.execute(step)
	if !answers(step.call.Reply, want) && !answers(step.call.Reply, step.uncounted(want)) {
		return nil, fmt.Errorf("the answer is %q, want %q", step.call.Reply, encode(want))
	}
	if err := c.checkMessages(step); err != nil {
		return nil, err
	}
	for _, key := range step.keys {
		if err := next.check(step, key); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
	}
	return next, nil
}

// check compares what a key is with what it should be.
func (s *Server) check(step *Step, key string) error {
	if step.of == Slots {
		return s.semaphores[key].check(loadSemaphore(step.call, key))
	}
	return s.locks[key].check(load(step.call, key))
}

func (c *call) execute(step *Step) any {
	switch step.of {
	case Batch:
		return c.batch(step.keys, step.args)
	case Set:
		return c.acquireSet(step.keys, step.args)
	case Slots:
		return c.permits(step.keys, step.args)
	case Flight:
		return c.tellValue(step.keys[0], step.args)
	}
	l := c.lock(step.keys[0])
	if l.Token != "" {
		return nil
	}
	c.set(l, step.call.Args[1], number(step.call.Args[4]))
	return okay
}

// A status is a reply such as OK.
type status string

const okay status = "OK" // to a SET that has set the key

// uncounted returns the answers of a call that has not counted how many are ahead of a claim, since a release of its lock is in front of it
// in the call: 10 stands for three or more.
func (step *Step) uncounted(want any) any {
	all, _ := want.([]any)
	if step.of != Batch || len(step.keys) != len(all) {
		return want
	}
	all = slices.Clone(all)
	released := map[string]bool{}
	for i, w := range step.Words() {
		five, _ := all[i].([]any)
		if len(five) == 5 && released[w.Name] && five[4].(int64) >= near {
			all[i] = append(slices.Clone(five[:4]), int64(10))
		}
		released[w.Name] = w.Verb == "release"
	}
	return all
}

// answers reports whether a reply is the answer. Of an error only the beginning is compared.
func answers(reply string, want any) bool {
	if e, ok := want.(errText); ok {
		return strings.HasPrefix(reply, "-"+string(e))
	}
	return reply == encode(want)
}

// encode returns a reply as it is sent.
func encode(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "$-1\r\n"
	case status:
		return "+" + string(r) + "\r\n"
	case int64:
		return ":" + strconv.FormatInt(r, 10) + "\r\n"
	case string:
		return "$" + strconv.Itoa(len(r)) + "\r\n" + r + "\r\n"
	case errText:
		return "-" + string(r) + "\r\n"
	case []any:
		all := "*" + strconv.Itoa(len(r)) + "\r\n"
		for _, one := range r {
			all += encode(one)
		}
		return all
	}
	panic(fmt.Sprintf("server: bug: a reply of type %T", reply))
}

// checkMessages compares the messages that a call has sent to clients that have a subscription. A claim may be told that it is near although it is not needed, if it is in
// the queue. Readers that are asked again to leave are drawn at random.
func (c *call) checkMessages(step *Step) error {
	var rest []string
	told := map[string]bool{}
	for _, m := range step.call.Published {
		client := strings.TrimPrefix(m.Channel, "redlock:wake:")
		switch {
		case c.deaf(client):
		case strings.HasPrefix(m.Text, "= "):
			told[client+" "+m.Text] = true
		case strings.HasPrefix(m.Text, Marker+" ") && c.some > 0:
			c.some--
		default:
			rest = append(rest, client+" "+unaged(m.Text))
		}
	}
	granted := func(m message) bool { // it need not know any more that it is near
		_, token, _ := strings.Cut(m.text, " ")
		token, _, _ = strings.Cut(token, " ")
		return slices.ContainsFunc(c.out, func(o message) bool {
			return o.client == m.client && (strings.HasPrefix(o.text, "+ "+token+" ") || strings.HasPrefix(o.text, "* "+token+" "))
		})
	}
	for _, m := range c.told {
		if !c.deaf(m.client) && !granted(m) && !told[m.client+" "+m.text] {
			return fmt.Errorf("the messages %q do not have %q", step.call.Published, m)
		}
	}
	var want []string
	for _, m := range c.out {
		if !c.deaf(m.client) {
			want = append(want, m.client+" "+m.text)
		}
	}
	slices.Sort(rest)
	slices.Sort(want)
	if !slices.Equal(rest, want) {
		return fmt.Errorf("the messages are %q, want %q", rest, want)
	}
	return nil
}

// unaged returns a message without the age of the server's record, if it is about a grant.
func unaged(text string) string {
	parts := strings.SplitN(text, " ", 5)
	if (parts[0] == "+" || parts[0] == "*") && len(parts) == 5 {
		parts[3] = "*"
	}
	return strings.Join(parts, " ")
}

// check compares what a lock is with what it should be, and takes over when its queues expire.
func (l *Lock) check(is *Lock) error {
	switch {
	case is.Token != l.Token:
		return fmt.Errorf("the key holds %q, want %q", is.Token, l.Token)
	case l.Token != "" && !is.Until.Equal(l.Until):
		return fmt.Errorf("the key lives until %v, want %v", is.Until, l.Until)
	case !slices.Equal(is.queue, l.queue):
		return fmt.Errorf("the queue is %v, want %v", is.queue, l.queue)
	case !slices.Equal(is.readers, l.readers):
		return fmt.Errorf("the readers are %v, want %v", is.readers, l.readers)
	case len(l.readers) > 0 && !is.readersUntil.Equal(l.readersUntil):
		return fmt.Errorf("the readers are kept until %v, want %v", is.readersUntil, l.readersUntil)
	case !slices.Equal(is.waiting, l.waiting):
		return fmt.Errorf("the readers that wait are %v, want %v", is.waiting, l.waiting)
	case is.intent != l.intent:
		return fmt.Errorf("a writer has announced itself since %d, want %d", is.intent, l.intent)
	case l.intent != 0 && !is.intentUntil.Equal(l.intentUntil):
		return fmt.Errorf("the announcement lasts until %v, want %v", is.intentUntil, l.intentUntil)
	}
	l.queueUntil, l.waitingUntil = is.queueUntil, is.waitingUntil
	return l.fenced.check(is.fenced)
}

// check compares what a fence is with what it should be.
func (n fenced) check(is fenced) error {
	switch {
	case is.fence != n.fence:
		return fmt.Errorf("the fence is %d, want %d", is.fence, n.fence)
	case n.fence != 0 && !is.fenceUntil.Equal(n.fenceUntil):
		return fmt.Errorf("the fence is kept until %v, want %v", is.fenceUntil, n.fenceUntil)
	}
	return nil
}

// loadFence reads the fence of a key.
func loadFence(call *executed.Call, key string) (n fenced) {
	key = "redlock:fence:" + key
	if n.fence = number(text(call.Read("GET", key))); n.fence != 0 {
		n.fenceUntil = call.Now.Add(left(call, key))
	}
	return n
}

// load reads what a master knows of a lock.
func load(call *executed.Call, key string) *Lock {
	until := func(key string) time.Time { return call.Now.Add(left(call, key)) }
	l := &Lock{Token: text(call.Read("GET", key)), fenced: loadFence(call, key)}
	if l.Token != "" {
		l.Until = until(key)
	}
	if l.intent = number(text(call.Read("GET", "redlock:intent:"+key))); l.intent != 0 {
		l.intentUntil = until("redlock:intent:" + key)
	}
	for _, set := range []struct {
		prefix  string
		members *[]member
		until   *time.Time
	}{
		{"redlock:queue:", &l.queue, &l.queueUntil},
		{"redlock:readers:", &l.readers, &l.readersUntil},
		{"redlock:rqueue:", &l.waiting, &l.waitingUntil},
	} {
		if *set.members = members(call.Read("ZRANGE", set.prefix+key, "0", "-1", "WITHSCORES")); len(*set.members) > 0 {
			*set.until = until(set.prefix + key)
		}
	}
	return l
}

// runOf returns the run_id that INFO tells.
func runOf(info string) string {
	_, rest, _ := strings.Cut(info, "run_id:")
	run, _, _ := strings.Cut(rest, "\r\n")
	return run
}

// left returns how long a key lives. One that does not expire lives for a year.
func left(call *executed.Call, key string) time.Duration {
	return cmp.Or(call.Left(key), 365*24*time.Hour)
}

// text returns the text of a reply; "": it is none.
func text(reply string) string {
	head, rest, _ := strings.Cut(reply, "\r\n")
	if !strings.HasPrefix(head, "$") || head == "$-1" {
		return ""
	}
	return rest[:number(head[1:])]
}

// members returns the members of a sorted set.
func members(reply string) (all []member) {
	parts := strings.Split(reply, "\r\n")
	for i := 2; i+2 < len(parts); i += 4 { // behind each $length
		score, _ := strconv.ParseFloat(parts[i+2], 64)
		all = append(all, member{parts[i], score})
	}
	return all
}

// A Holder is a token that holds a name at a master: of a lock, or of a reader.
type Holder struct {
	Name  string    // the key
	Token string    // of the lock, or of the reader
	Until time.Time // when it expires
}

// Holders returns who holds the names of a step that was explained.
func (step *Step) Holders() (all []Holder) {
	for i, l := range step.locks {
		if l == nil {
			continue
		}
		if name := step.keys[i]; l.Token != "" && l.Token != Marker {
			all = append(all, Holder{name, l.Token, l.Until})
		}
		for _, m := range l.readers {
			if _, token, ok := strings.Cut(m.name, " "); ok && l.Token == Marker {
				all = append(all, Holder{step.keys[i], token, time.UnixMilli(int64(m.score))})
			}
		}
	}
	for i, s := range step.semaphores {
		for slot, p := range s.places() {
			all = append(all, Holder{SlotName(step.keys[i], slot), p.token, time.UnixMilli(p.until)})
		}
	}
	return all
}

// A Word is a command of a step for one name.
type Word struct {
	Name  string // the key
	Verb  string // of the script, or set
	Token string // empty or any text if the command has none
}

// Words returns the commands of a step.
func (step *Step) Words() (all []Word) {
	for i, key := range step.keys {
		switch step.of {
		case None:
			all = append(all, Word{key, "set", step.call.Args[1]})
		case Set:
			all = append(all, Word{key, step.args[1], step.args[4]})
		case Flight: // it is about no acquisition
		default:
			w := split(step.args[1+2*i])
			if w.verb == "readers" {
				w.verb = w.arg(0)
			}
			all = append(all, Word{key, w.verb, step.args[2+2*i]})
		}
	}
	return all
}
