package redlock

import "time"

// A recent is a map by name that drops its oldest entries. An entry is kept for at least the time keep,
// unless more than recentMost later entries follow. The map must not grow with the number of names, and each
// call must be quick. So entries are dropped one generation at a time.
//
// A recent is not safe for concurrent use.
type recent[V any] struct {
	keep       time.Duration // immutable; how long an entry is kept at least
	young, old map[string]V  // the generation that is being filled, and the one before
	begun      time.Time     // when the generation young began
}

// recentMost is how many entries a generation has.
const recentMost = 4096

// put sets the entry of a name.
func (r *recent[V]) put(name string, v V) {
	r.dropOld(time.Now())
	if len(r.young) >= recentMost {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[string]V)
	}
	delete(r.old, name)
	r.young[name] = v
}

// get returns the entry of a name, if it is kept.
func (r *recent[V]) get(name string) (v V, ok bool) {
	r.dropOld(time.Now())
	if v, ok = r.young[name]; !ok {
		v, ok = r.old[name]
	}
	return v, ok
}

// drop removes the entry of a name.
func (r *recent[V]) drop(name string) {
	delete(r.young, name)
	delete(r.old, name)
}

// dropOld drops the entries that are too old.
func (r *recent[V]) dropOld(now time.Time) {
	switch age := now.Sub(r.begun); {
	case age >= 2*r.keep:
		r.old, r.young = nil, nil
	case age >= r.keep:
		r.old, r.young = r.young, nil
	default:
		return
	}
	r.begun = now
}
