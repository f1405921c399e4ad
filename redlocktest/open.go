package redlocktest

import (
	"log/slog"

	"github.com/redlock-go/redlock"
)

// Open returns a new Client of these masters, with pools of its own, so that each call stands for another
// process. Nil opts means the defaults. If opts has no Names, the masters have the names of [Masters.Names].
// If it has no Logger, the Client logs to the output of the test. Open does not change opts.
//
// If redlock.New returns an error, Open fails the test. The Client is closed when the test ends, before the
// masters are shut down. A test may close it earlier.
func (ms *Masters) Open(opts *redlock.Options) *redlock.Client {
	ms.tb.Helper()
	ms.mustBeHere()
	var o redlock.Options
	if opts != nil {
		o = *opts
	}
	if o.Names == nil {
		o.Names = ms.Names()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(ms.tb.Output(), nil))
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
