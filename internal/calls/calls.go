// Package calls counts the calls of a Client that may send commands, so that the end of the Client can wait for them.
package calls

import "sync"

// Calls are the calls that are under way. They are safe for concurrent use.
type Calls struct {
	quiet chan struct{} // closed when ended is true and under is 0

	mu    sync.Mutex // guards what follows
	under int        // calls that are under way
	ended bool       // no call begins any more
}

// New returns Calls of which none has begun.
func New() *Calls { return &Calls{quiet: make(chan struct{})} }

// Begin notes a call, and reports whether it may go on. If it may, the caller must call Done.
func (c *Calls) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.under++
	return true
}

// Done notes the end of a call.
func (c *Calls) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under--; c.ended && c.under == 0 {
		close(c.quiet)
	}
}

// End keeps further calls from beginning. It reports false if End was called before.
func (c *Calls) End() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if c.ended = true; c.under == 0 {
		close(c.quiet)
	}
	return true
}

// Quiet returns a channel that is closed when End was called and no call is under way.
func (c *Calls) Quiet() <-chan struct{} { return c.quiet }
