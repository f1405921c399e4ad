package redlocktest

import "github.com/redlock-go/redlock"

// Open returns a new Client of these masters over pools of its own: each call
// plays one more process. Nil opts mean the defaults. Where opts names no
// masters they are called as in [Masters.Names]; opts itself is not changed.
//
// A configuration that redlock refuses fails the test. The Client is closed
// when the test ends, before the masters are; closing it earlier does no harm.
func (ms *Masters) Open(opts *redlock.Options) *redlock.Client {
	ms.tb.Helper()
	var o redlock.Options
	if opts != nil {
		o = *opts
	}
	if o.Names == nil {
		o.Names = ms.Names()
	}
	c, err := redlock.New(ms.Pools(), &o)
	if err != nil {
		ms.tb.Fatalf("redlocktest: open: %v", err)
	}
	ms.tb.Cleanup(func() {
		ms.release()
		if err := c.Close(); err != nil {
			ms.tb.Errorf("redlocktest: close the client: %v", err)
		}
	})
	return c
}
