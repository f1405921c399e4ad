package server

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Server is what the specification says of one master. Only one goroutine may use it at a time.
type Server struct {
	locks      map[string]*Lock
	semaphores map[string]*Semaphore // by key
	notes      map[string]note       // by client
}

// New returns a Server that knows nothing yet: see Server.Load.
func New() *Server {
	return &Server{locks: map[string]*Lock{}, semaphores: map[string]*Semaphore{}, notes: map[string]note{}}
}

// A Lock is what a master knows of one lock.
type Lock struct {
	Token string    // what the key holds; "": there is no key
	Until time.Time // when the key expires

	queue []member // in their order
	fenced
	readers []member // by their expiry in ms
	waiting []member // readers that wait, by the ms that they need to come back
	intent  int64    // since when a writer waits, in ms; 0: none has announced itself

	// When these expire:
	queueUntil, readersUntil, waitingUntil, intentUntil time.Time
}

// A fenced is what a master keeps as the fence of a lock or of a semaphore.
type fenced struct {
	fence      int64 // 0: there is none
	fenceUntil time.Time
}

// A member is a member of a sorted set.
type member struct {
	name  string
	score float64
}

// A note says how long a client that waits counts as live, and for how long after that it is unheard.
type note struct {
	till, far float64 // in ms
	until     time.Time
}

// Marker is what the key holds while readers hold the lock.
const Marker = "redlock:readers"

// near is how many members at the front of a queue are near.
const near = 3

// aside is what the score of a member is more while it is set aside.
const aside = 4e15

// clone returns a copy that can be changed alone.
func (l *Lock) clone() *Lock {
	c := *l
	c.queue, c.readers, c.waiting = slices.Clone(l.queue), slices.Clone(l.readers), slices.Clone(l.waiting)
	return &c
}

// lock returns what is known of a lock.
func (s *Server) lock(key string) *Lock {
	l := s.locks[key]
	if l == nil {
		l = &Lock{}
		s.locks[key] = l
	}
	return l
}

// clone returns a copy of which these locks, and the notes, can be changed alone.
func (s *Server) clone(keys []string) *Server {
	c := &Server{locks: maps.Clone(s.locks), semaphores: maps.Clone(s.semaphores), notes: maps.Clone(s.notes)}
	for _, key := range keys {
		if sem := s.semaphores[key]; sem != nil {
			c.semaphores[key] = sem.clone()
		} else {
			c.locks[key] = s.lock(key).clone()
		}
	}
	return c
}

// expire forgets what has expired.
func (s *Server) expire(now time.Time) {
	for _, l := range s.locks {
		l.expire(now)
	}
	for _, sem := range s.semaphores {
		sem.expire(now)
	}
}

func (l *Lock) expire(now time.Time) {
	if l.Token != "" && !l.Until.After(now) {
		l.Token = ""
	}
	if !l.queueUntil.After(now) {
		l.queue = nil
	}
	l.fenced.expire(now)
	if !l.readersUntil.After(now) {
		l.readers = nil
	}
	if !l.waitingUntil.After(now) {
		l.waiting = nil
	}
	if !l.intentUntil.After(now) {
		l.intent = 0
	}
}

func (n *fenced) expire(now time.Time) {
	if !n.fenceUntil.After(now) {
		n.fence = 0
	}
}

// find returns the index of a member, or -1.
func find(set []member, name string) int {
	return slices.IndexFunc(set, func(m member) bool { return m.name == name })
}

// add puts a member into a sorted set, or gives it another score.
func add(set []member, name string, score float64) []member {
	set, _ = remove(set, name)
	set = append(set, member{name, score})
	slices.SortFunc(set, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name))
	})
	return set
}

// remove takes members out of a sorted set, and returns how many it had.
func remove(set []member, names ...string) ([]member, int) {
	n := len(set)
	set = slices.DeleteFunc(set, func(m member) bool { return slices.Contains(names, m.name) })
	return set, n - len(set)
}

// A claim is a member of a queue.
type claim struct {
	client, token string
	ms            int64 // for how long
	fenced        bool
	deaf          bool // its client has no subscription
}

// parse splits a member of a queue.
func parse(name string) claim {
	parts := strings.Split(name, " ")
	g, deaf := strings.CutSuffix(parts[2], "p")
	g, fenced := strings.CutSuffix(g, "f")
	return claim{parts[0], parts[1], number(g), fenced, deaf}
}

// number returns a number that is written in decimal digits; else 0.
func number(text string) (n int64) {
	fmt.Sscanf(text, "%d", &n)
	return n
}

// millis returns how many whole ms a key lives from now on.
func millis(until, now time.Time) int64 { return until.Sub(now).Milliseconds() }

// micros returns the µs of a master's clock.
func micros(now time.Time) float64 { return float64(now.UnixMicro()) }

// even rounds as Lua's %.0f does.
func even(x float64) float64 { return math.RoundToEven(x) }
