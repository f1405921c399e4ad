// Package recent forgets what is old: it has a map that keeps young entries only, for what a Client remembers of names, and an
// order of what was used last.
package recent

import (
	"sync"
	"time"
)

// A Map is a map by name that drops its oldest entries. An entry is kept for at least the time Keep,
// unless more than most later entries follow. The map must not grow with the number of names, and each
// call must be quick. So entries are dropped one generation at a time.
//
// A Map is not safe for concurrent use.
type Map[V any] struct {
	Keep       time.Duration // immutable; how long an entry is kept at least
	young, old map[string]V  // the generation that is being filled, and the one before
	begun      time.Time     // when the generation young began
}

// most is how many entries a generation has.
const most = 4096

// Put sets the entry of a name.
func (m *Map[V]) Put(name string, v V) {
	m.dropOld(time.Now())
	if len(m.young) >= most {
		m.old, m.young = m.young, nil
	}
	if m.young == nil {
		m.young = make(map[string]V)
	}
	delete(m.old, name)
	m.young[name] = v
}

// Get returns the entry of a name, if it is kept.
func (m *Map[V]) Get(name string) (v V, ok bool) {
	m.dropOld(time.Now())
	if v, ok = m.young[name]; !ok {
		v, ok = m.old[name]
	}
	return v, ok
}

// Drop removes the entry of a name.
func (m *Map[V]) Drop(name string) {
	delete(m.young, name)
	delete(m.old, name)
}

// dropOld drops the entries that are too old.
func (m *Map[V]) dropOld(now time.Time) {
	switch age := now.Sub(m.begun); {
	case age >= 2*m.Keep:
		m.old, m.young = nil, nil
	case age >= m.Keep:
		m.old, m.young = m.young, nil
	default:
		return
	}
	m.begun = now
}

// A Set is a set of names that forgets, as a Map does. It is safe for concurrent use.
type Set struct {
	mu    sync.Mutex // guards what follows
	names Map[struct{}]
}

// NewSet returns a Set that keeps a name for at least keep.
func NewSet(keep time.Duration) *Set { return &Set{names: Map[struct{}]{Keep: keep}} }

// Add adds a name, and reports whether it is new.
func (s *Set) Add(name string) (isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, kept := s.names.Get(name)
	s.names.Put(name, struct{}{})
	return !kept
}

// Has reports whether a name is kept.
func (s *Set) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.names.Get(name)
	return ok
}
