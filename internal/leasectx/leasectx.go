// Package leasectx has contexts that end with a lease, or with anything else that is an Ender.
package leasectx

import (
	"context"
	"sync"
)

// An Ender is what contexts end with. Err returns nil until it has ended, and then why. It may read clocks. Enders are compared, so they are
// pointers.
type Ender interface{ Err() error }

// Contexts are the contexts of one Ender that have not ended. They are safe for concurrent use. The zero Contexts are none.
type Contexts struct {
	mu   sync.Mutex // guards live
	live map[*Context]struct{}
}

// New returns a context that ends with parent or with e. If e has ended it, its cause is e.Err. It needs no cancel function: its
// resources are freed when either ends.
func (s *Contexts) New(parent context.Context, e Ender) *Context {
	ctx, cancel := context.WithCancelCause(parent)
	c := &Context{Context: ctx, parent: parent, ender: e, cancel: cancel}
	s.mu.Lock()
	if s.live == nil {
		s.live = make(map[*Context]struct{})
	}
	s.live[c] = struct{}{}
	s.mu.Unlock()
	context.AfterFunc(ctx, func() { s.forget(c) })
	c.Err() // e may have ended before, and then End has not found the context
	return c
}

// End ends the contexts for the reason err, which is e.Err by now.
func (s *Contexts) End(err error) {
	s.mu.Lock()
	live := s.live
	s.live = nil
	s.mu.Unlock()
	for c := range live {
		c.cancel(err)
	}
}

// Len returns how many contexts have not ended.
func (s *Contexts) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// forget removes a context that has ended.
func (s *Contexts) forget(c *Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
}

// A Context ends with an Ender. Its Err asks the Ender.
type Context struct {
	context.Context
	parent context.Context
	ender  Ender
	cancel context.CancelCauseFunc
}

// End ends the context for the reason err.
func (c *Context) End(err error) { c.cancel(err) }

// Err implements context.Context. It ends the context if the Ender has ended.
func (c *Context) Err() error {
	if err := c.ender.Err(); err != nil {
		c.cancel(err)
	}
	return c.Context.Err()
}

// A key is the key for which the Value method of a context of the Ender returns that context: see Outlive.
type key struct{ ender Ender }

// Value implements context.Context.
func (c *Context) Value(k any) any {
	if k, ok := k.(key); ok && k.ender == c.ender {
		return c
	}
	return c.Context.Value(k)
}

// Outlive returns a context for what is done after e has ended. As a rule that is ctx. But if ctx is a context of e, or is derived from one,
// the end of e ends it. In that case the result ends with ctx's deadline, or with the parent of e's context.
func Outlive(ctx context.Context, e Ender) (context.Context, context.CancelFunc) {
	own, ok := ctx.Value(key{e}).(*Context)
	if !ok || ctx.Err() != nil {
		return ctx, func() {}
	}
	wait, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(own.parent, func() { cancel(context.Cause(own.parent)) })
	end := func() { stop(); cancel(nil) }
	if deadline, ok := ctx.Deadline(); ok {
		timed, expire := context.WithDeadline(wait, deadline)
		return timed, func() { expire(); end() }
	}
	return wait, end
}
