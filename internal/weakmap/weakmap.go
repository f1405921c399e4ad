// Package weakmap has a map of values that stay in it as long as they are in use elsewhere.
package weakmap

import (
	"sync"
	"weak"
)

// A Map is a map by key. It keeps no values in memory but those that are pinned. It is safe for concurrent use. The zero Map is empty.
type Map[V any] struct {
	mu     sync.Mutex // guards what follows
	byKey  map[string]weak.Pointer[V]
	sweep  int           // the size at which values that are no longer in use are removed
	pinned map[string]*V // these stay
}

// Pin has the value of a key stay, until Unpin. v must be that value.
func (m *Map[V]) Pin(key string, v *V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pinned == nil {
		m.pinned = map[string]*V{}
	}
	m.pinned[key] = v
}

// Unpin ends Pin.
func (m *Map[V]) Unpin(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pinned, key)
}

// Of returns the value of a key. If there is none, that is a new one, from make.
func (m *Map[V]) Of(key string, make func() *V) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.byKey[key].Value(); v != nil {
		return v
	}
	if m.byKey == nil {
		m.byKey = map[string]weak.Pointer[V]{}
	}
	if len(m.byKey) >= m.sweep {
		for key, p := range m.byKey {
			if p.Value() == nil {
				delete(m.byKey, key)
			}
		}
		m.sweep = 2*len(m.byKey) + 64
	}
	v := make()
	m.byKey[key] = weak.Make(v)
	return v
}

// Find returns the value of a key, or nil.
func (m *Map[V]) Find(key string) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].Value()
}

// All returns all values.
func (m *Map[V]) All() (all []*V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.byKey {
		if v := p.Value(); v != nil {
			all = append(all, v)
		}
	}
	return all
}
