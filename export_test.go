package redlock

// NewBackOff returns the default schedule between attempts.
func NewBackOff() BackOff { return newBackOff() }

// A Background calls functions of a Trace.
type Background = background

// Post queues f.
func (b *background) Post(f func()) { b.post(f) }

// Done is done.
func (b *background) Done() <-chan struct{} { return b.done() }
