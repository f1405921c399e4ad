package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// A use is what some goroutines of each client do: they lock and unlock the same names again and again.
type use struct {
	Names      []string // one; with Sets, those that an operation chooses from
	Side       string   // of an RWLocker; "" for a Locker
	Sets       bool     // each operation locks one to three of Names at once
	Fenced     bool
	Long       bool // the lock is held for seconds, not milliseconds
	Goroutines int  // in each client
	Permits    int  // Names[0] is a semaphore, and each operation acquires so many permits
}

// Sides. A writer sometimes uses a Locker instead of the RWLocker.
const (
	asReader = history.AsReader
	asWriter = "writer"
	asLocker = "locker"
)

func (u use) String() string {
	s := strings.Join(u.Names, " ")
	if u.Sets {
		s = "sets of " + s
	}
	if u.Permits > 0 {
		s = fmt.Sprintf("%d of %s", u.Permits, s)
	}
	return strings.TrimSpace(s + " " + u.Side)
}

// The workloads, for the command line.
const (
	plainLocks = "plain"   // Lockers of one name
	readWrite  = "readers" // RWLockers
	manyNames  = "sets"    // Lockers of several names, and of one of them
	allOfThem  = "all"     // the three above
	semaphores = "permits" // permits of semaphores
)

var workloads = []string{plainLocks, readWrite, manyNames, allOfThem, semaphores}

// uses returns what the goroutines of each client do. In each workload some locks are held for a long time, so that
// at any moment a lease exists that must be renewed, and that others wait for. Where a client has two goroutines on
// one name, they hand the lock over to each other.
func (c config) uses() []use {
	fences := c.subject.fences
	two := func(n int) int { // fewer goroutines where all workloads run at once
		if c.workload == allOfThem {
			return 1
		}
		return n
	}
	plain := []use{
		{Names: []string{"plain"}, Goroutines: 2},
		{Names: []string{"plain-long"}, Goroutines: 1, Long: true},
		{Names: []string{"fenced"}, Goroutines: two(2), Fenced: fences},
		{Names: []string{"fenced-long"}, Goroutines: 1, Fenced: fences, Long: true},
	}
	readers := []use{
		{Names: []string{"shared"}, Side: asReader, Goroutines: 2},
		{Names: []string{"shared"}, Side: asWriter, Goroutines: 1},
		{Names: []string{"shared-long"}, Side: asReader, Goroutines: two(2), Long: true},
		{Names: []string{"shared-long"}, Side: asWriter, Goroutines: 1, Long: true},
	}
	for i := range readers {
		readers[i].Fenced = c.fencesReaders()
	}
	sets := []use{
		{Names: []string{"a", "b", "c", "d"}, Sets: true, Goroutines: two(3), Fenced: fences},
		{Names: []string{"x", "y", "z"}, Sets: true, Goroutines: two(2)},
	}
	switch c.workload {
	case plainLocks:
		return plain
	case readWrite:
		return readers
	case manyNames:
		return sets
	case semaphores:
		return permitUses
	}
	return slices.Concat(plain, readers, sets)
}

// fencesReaders reports whether RWLockers have fences: for three of four seeds. A Client has fences for all of its
// RWLockers or for none.
func (c config) fencesReaders() bool { return c.subject.fences && c.seed%4 != 0 }

// A lockName is a name that clients lock.
type lockName struct {
	Name   string
	Fenced bool
	Limit  int // of a semaphore; 0: it is a lock
}

func (u use) lockName(name string) lockName {
	n := lockName{Name: name, Fenced: u.Fenced}
	if u.Permits > 0 {
		n.Limit = permitLimit
	}
	return n
}

// names returns all names, each once.
func (c config) names() (all []lockName) {
	for _, u := range c.uses() {
		for _, name := range u.Names {
			if n := (u.lockName(name)); !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// pickWorkload sets the workload, by default all that the subject has.
func (c *config) pickWorkload(name string) error {
	if c.workload = name; c.subject != ours && name == allOfThem {
		c.workload = plainLocks
	}
	switch {
	case !slices.Contains(workloads, name):
		return fmt.Errorf("no workload %q: there are %s", name, strings.Join(workloads, ", "))
	case name == semaphores && drawing:
		return errors.New("-traits does not go with semaphores: they need wake-ups and all rights")
	case c.subject != ours && c.workload != plainLocks:
		return fmt.Errorf("%s has no readers, no locks of several names, and no semaphores", c.subject.name)
	}
	return nil
}

// A wanted says which lock an operation uses.
type wanted struct {
	names   []string
	side    string
	fenced  bool
	permits int // of the semaphore names[0]; 0: it is a lock
}

// mutexes are the locks of a goroutine, or of all goroutines of a client.
type mutexes struct {
	locks locks

	mu    sync.Mutex // guards byKey
	byKey map[string]mutex
}

func newMutexes(l locks) *mutexes { return &mutexes{locks: l, byKey: make(map[string]mutex)} }

// of returns the lock for an operation. It is the same one each time.
func (m *mutexes) of(w wanted) mutex {
	key := w.side + " " + strings.Join(w.names, " ")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey[key] == nil {
		m.byKey[key] = m.locks.mutex(w)
	}
	return m.byKey[key]
}

// setMost is how many names an operation locks at once at most.
const setMost = 3

// choose chooses the lock and the call, and how long it may wait; 0 means without a limit.
func (l *looper) choose() (w wanted, how string, limit time.Duration) {
	how, limit = l.chooseCall()
	w = wanted{l.use.Names, l.use.Side, l.use.Fenced, l.use.Permits}
	switch {
	case w.permits > 1 && how == byTry: // TryAcquire is for one
		how, limit = byContext, time.Duration(1+l.rng.IntN(50))*time.Millisecond
	case w.permits > 0 && how == byDo: // then the context of Do ends with the permit only
		limit = 0
	case l.use.Sets:
		order := l.rng.Perm(len(l.use.Names)) // two goroutines want the same names in any order
		w.names = nil
		for _, i := range order[:1+l.rng.IntN(setMost)] {
			w.names = append(w.names, l.use.Names[i])
		}
	case w.side == asWriter && l.rng.IntN(4) == 0:
		w.side = asLocker
	}
	return w, how, limit
}

// chooseCall chooses the call, and how long it may wait.
func (l *looper) chooseCall() (how string, limit time.Duration) {
	n := l.rng.IntN(100)
	short := time.Duration(20+l.rng.IntN(1500)) * time.Millisecond
	switch {
	case l.calm.Load() || n < 40:
		return byLock, 0
	case n < 65:
		return byContext, short
	case n < 80:
		return byTry, 0
	}
	return byDo, 4 * short
}

// holdMost is how many TTLs the lock is held at most.
const holdMost = 4

// length chooses how long to hold the lock.
func (l *looper) length() time.Duration {
	n, part := l.rng.IntN(100), l.rng.Float64()
	switch {
	case l.calm.Load() || !l.use.Long && n < 80:
		return time.Duration(part * float64(15*time.Millisecond))
	case !l.use.Long && n < 97:
		return time.Duration(part * float64(100*time.Millisecond))
	}
	return time.Duration((0.3 + 3*part) * float64(l.TTL))
}
