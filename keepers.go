package redlock

import (
	"container/list"
	"sync"
	"time"
	"weak"

	"github.com/redlock-go/redlock/internal/recent"
)

const (
	// unkeptLeast is for how long a lock is not kept after others have wanted it.
	unkeptLeast = politeFor
	// unkeptMost is the longest such time. It is doubled each time that the lock had been kept in vain.
	unkeptMost = 64 * unkeptLeast
)

// An unkept says for how long a lock is not kept.
type unkept struct {
	until time.Time
	pause time.Duration
}

// contended notes that others want the lock. used reports whether it had been of use that it was kept.
func (k *keeper) contended(used bool) {
	h := &k.locker.client.keepers
	h.wanted.Lock()
	defer h.wanted.Unlock()
	now := time.Now()
	u, _ := h.unkept.Get(k.locker.key)
	switch {
	case used:
		u.pause = unkeptLeast
	case !now.Before(u.until):
		u.pause = min(max(2*u.pause, unkeptLeast), unkeptMost)
	}
	u.until = now.Add(u.pause)
	h.unkept.Put(k.locker.key, u)
}

// keeps reports whether a lock that is acquired now may be kept.
func (k *keeper) keeps() bool {
	h := &k.locker.client.keepers
	h.wanted.Lock()
	defer h.wanted.Unlock()
	u, _ := h.unkept.Get(k.locker.key)
	return !time.Now().Before(u.until)
}

// keepers are the keepers of a Client, by key.
type keepers struct {
	inUse[keeper]

	wanted sync.Mutex // guards unkept
	unkept recent.Map[unkept]

	most   int        // keptMost, but for tests
	listed sync.Mutex // guards order; taken before the mutex of a tenure
	order  list.List  // of *keeper, those with a tenure that may be kept; at the front those that were not entered for long
}

// keptMost is how many locks a Client keeps at most, with those that goroutines hold by a tenure that may be kept. Each takes
// about a kilobyte, and is renewed while it is used, and if the process is killed, others wait for it. For one more, a lock
// is released that has not been used for long.
const keptMost = 10_000

// keptTries is among how many locks that one is looked for, if all have been used since they were looked at last. It limits the
// time for which the mutex is held to some ten microseconds.
const keptTries = 256

// begun notes that k has a tenure, and reports whether it may be kept.
func (h *keepers) begun(k *keeper) bool {
	h.listed.Lock()
	if k.place != nil { // a function of the user has panicked
		h.order.Remove(k.place)
		k.place = nil
	}
	var spare *keeper
	if h.order.Len() >= h.most {
		if spare = h.spareLocked(); spare == nil {
			h.listed.Unlock()
			return false
		}
	}
	k.place, k.placed = h.order.PushBack(k), time.Now()
	h.listed.Unlock()
	if spare == nil || spare.giveBack() {
		return true
	}
	h.ended(k) // a goroutine has entered the other one just now
	return false
}

// spareLocked returns the keeper whose lock is to be released for another one, or nil. A goroutine that enters leaves no mark
// but the time in a clock.Limit, so that this costs it nothing. So a keeper gets another place here, if it was used.
func (h *keepers) spareLocked() (spare *keeper) {
	var oldest time.Time
	for range keptTries {
		first := h.order.Front()
		k := first.Value.(*keeper)
		at, idle := k.lastEntered()
		if idle && !at.After(k.placed) {
			return k
		}
		if idle && (spare == nil || at.Before(oldest)) {
			spare, oldest = k, at
		}
		h.order.MoveToBack(first)
		k.placed = time.Now()
	}
	return spare
}

// ended notes that k has no tenure any more that may be kept.
func (h *keepers) ended(k *keeper) {
	h.listed.Lock()
	defer h.listed.Unlock()
	if k.place != nil {
		h.order.Remove(k.place)
		k.place = nil
	}
}

// queued is called when a goroutine has come to the gate of a key.
func (h *keepers) queued(key string) {
	if k := h.find(key); k != nil {
		k.yield(keptWanted)
	}
}

// giveBack releases a tenure of key that is kept, and reports whether there was one.
func (h *keepers) giveBack(key string) bool {
	k := h.find(key)
	return k != nil && k.giveBack()
}

// recall handles a recall. It reports false if no Locker of this Client keeps the lock of key.
func (h *keepers) recall(key, token string) bool {
	k := h.find(key)
	if k != nil {
		k.recall(token)
	}
	return k != nil
}

// closeAll releases all tenures that are kept.
func (h *keepers) closeAll() {
	for _, k := range h.all() {
		k.yield(keptAsked)
	}
}

// inUse is a map by key of values that stay in it as long as they are in use.
type inUse[V any] struct {
	mu    sync.Mutex // guards what follows
	byKey map[string]weak.Pointer[V]
	sweep int // the size at which values that are no longer in use are removed
}

// of returns the value of a key. If there is none, that is a new one, from make.
func (m *inUse[V]) of(key string, make func() *V) *V {
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

// find returns the value of a key, or nil.
func (m *inUse[V]) find(key string) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].Value()
}

// all returns all values.
func (m *inUse[V]) all() (all []*V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.byKey {
		if v := p.Value(); v != nil {
			all = append(all, v)
		}
	}
	return all
}
