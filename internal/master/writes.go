package master

import (
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/remedy"
	"github.com/redlock-go/redlock/internal/wire"
)

// A server can answer everything and refuse to write: its memory is full (OOM), it cannot save its data (MISCONF), or it has too few
// replicas (NOREPLICAS). Then it grants no lock. INFO tells only some of that: it does not have the settings on which it depends, and a
// user may be forbidden CONFIG GET. So a trial asks for a write that changes nothing: see wire.Trial. It is sent on connecting, once a second,
// and before a Ping that somebody waits for. Votes tell, too.

// trial is the Asker of a wire.Trial.
type trial struct{ m *Master }

func (t trial) Answered(_ int, a wire.Answer) {
	if a.Err != nil || len(a.Replies) != 1 {
		return // the connection was lost
	}
	err, _ := a.Replies[0].(error)
	t.m.update(func() { t.m.triedLocked(err) })
}

// tryLocked asks for a trial.
func (m *Master) tryLocked() {
	if m.cfg.Sample != "" {
		m.outbox.push(newItem(wire.Trial(m.cfg.Sample), nil, trial{m}))
	}
}

// triedLocked takes in the answer to a trial.
func (m *Master) triedLocked(err error) {
	m.noRight = nil
	switch {
	case err == nil:
		m.setWriteErrLocked(nil)
	case strings.HasPrefix(err.Error(), "NOPERM"): // the server looks at the rights first
		m.noRight = remedy.With(err)
	case remedy.Ends(err), m.guarded() && wire.IsReadOnly(err):
		// It answers nothing at all, as every command finds out, or is a replica, as probes do.
	default:
		m.setWriteErrLocked(err)
	}
}

// setWriteErrLocked sets WriteErr by the reply to a write.
func (m *Master) setWriteErrLocked(err error) {
	if (m.status.WriteErr == nil) != (err == nil) {
		m.status.WriteSince = time.Now()
	}
	m.status.WriteErr = remedy.With(err)
}

// votedLocked takes in what the answer to a command that sets a key tells.
func (m *Master) votedLocked(a wire.Answer) {
	switch {
	case wire.RefusesWrites(a.Err) && !(m.guarded() && wire.IsReadOnly(a.Err)):
		m.setWriteErrLocked(a.Err)
	case a.Outcome == wire.Granted && m.status.WriteErr != nil:
		m.setWriteErrLocked(nil)
	}
}
