package gate

import (
	"container/list"
	"sync"
)

// A Crowd queues the goroutines of one process that want permits of one semaphore, in the order of their calls. The first few are at the
// front: only these send commands. A goroutine that releases its permits may pass them on to the first one.
//
// As many may be at the front as the process holds permits, since each of these may soon be released, but frontLeast at least, and
// frontMost at most. So a crowd that finds permits free has them in a few round trips, and one that waits costs the masters little.
// Beside them there are up to frontMost goroutines that do not wait.
//
// The zero Crowd is ready to use. It must not be copied.
type Crowd struct {
	mu          sync.Mutex // guards the fields below and every Place
	front, back list.List  // of *Place, oldest first
	trying      int        // how many of those at the front are from TryJoin
	held        int        // by how many goroutines of the process permits are held
}

const (
	frontLeast = 4
	frontMost  = 64
)

// A Place is that of one goroutine in a Crowd. The methods of a nil Place do nothing; its Suspend reports true.
type Place struct {
	crowd  *Crowd        // immutable
	tag    any           // immutable; for the function given to Pass
	ready  chan struct{} // closed when it is at the front
	passed chan struct{} // closed when it has a baton

	// Guarded by Crowd.mu:
	at        *list.Element // in front or back; nil: in neither
	suspended bool          // Pass passes over it
	baton     any           // from Pass
}

// Join adds a goroutine to the crowd. tag is for the function given to Pass.
func (c *Crowd) Join(tag any) *Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &Place{crowd: c, tag: tag, ready: make(chan struct{}), passed: make(chan struct{})}
	p.at = c.back.PushBack(p)
	c.admitLocked()
	return p
}

// TryJoin is Join for a goroutine that does not wait. It returns nil if those who wait have all places at the front, or if there are
// frontMost goroutines from TryJoin. Nothing is passed on to it.
func (c *Crowd) TryJoin() *Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.front.Len()-c.trying >= c.roomLocked() || c.trying == frontMost {
		return nil
	}
	c.trying++
	p := &Place{crowd: c, suspended: true}
	p.at = c.front.PushBack(p)
	return p
}

// Held adds n to how many goroutines of the process hold permits.
func (c *Crowd) Held(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += n
	c.admitLocked()
}

// Pass gives a baton to the first goroutine at the front, which leaves the crowd. It does so only if there is one, and make returns a
// baton for its tag. Pass reports whether it did. make is called under the mutex of the crowd: it must be quick, and must not
// call methods of the crowd.
func (c *Crowd) Pass(make func(tag any) any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.front.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Place)
		if p.suspended {
			continue
		}
		if p.baton = make(p.tag); p.baton == nil {
			return false
		}
		close(p.passed)
		p.leaveLocked()
		return true
	}
	return false
}

func (c *Crowd) roomLocked() int { return max(frontLeast, min(c.held, frontMost)) }

// admitLocked lets goroutines to the front while there is room.
func (c *Crowd) admitLocked() {
	for c.back.Len() > 0 && c.front.Len()-c.trying < c.roomLocked() {
		p := c.back.Remove(c.back.Front()).(*Place)
		p.at = c.front.PushBack(p)
		close(p.ready)
	}
}

// Ready returns a channel that is closed when the goroutine is at the front.
func (p *Place) Ready() <-chan struct{} { return p.ready }

// Passed returns a channel that is closed when the goroutine has a baton: see Take.
func (p *Place) Passed() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.passed
}

// Take returns the baton from Pass once; nil if there is none.
func (p *Place) Take() (baton any) {
	if p == nil {
		return nil
	}
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	baton, p.baton = p.baton, nil
	return baton
}

// Suspend has Pass pass over the goroutine, until Resume. It reports false if there is a baton: see Take.
func (p *Place) Suspend() bool {
	if p == nil {
		return true
	}
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	p.suspended = true
	return p.baton == nil
}

// Resume ends Suspend.
func (p *Place) Resume() {
	if p == nil || p.passed == nil { // of TryJoin
		return
	}
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	p.suspended = false
}

// Leave leaves the crowd, and returns a baton that was not taken.
func (p *Place) Leave() (baton any) {
	if p == nil {
		return nil
	}
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	p.leaveLocked()
	baton, p.baton = p.baton, nil
	return baton
}

func (p *Place) leaveLocked() {
	if p.at == nil {
		return
	}
	p.crowd.front.Remove(p.at) // it is in one of the two lists, and Remove leaves the other as it is
	p.crowd.back.Remove(p.at)
	p.at = nil
	if p.passed == nil { // of TryJoin
		p.crowd.trying--
	}
	p.crowd.admitLocked()
}
