package renew

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Validity is for how long the holder of a lease may rely on it. A renewal that succeeds prolongs it. A Validity sends
// nothing: it says when which masters are to be asked, and counts their answers. It is not safe for concurrent use.
type Validity struct {
	Start  clock.Reading // of the acquisition, or of the last renewal that succeeded
	Length time.Duration // from Start on
	Short  bool          // a release granted the lock, and the lease was not renewed since: Length is not that of the TTL

	void    uint64   // the masters, as bits, that do not count in the current renewal: see Doubt
	current *Renewal // the current renewal, or the last one; nil before the first
}

// A Plan says when a lease is renewed.
type Plan struct {
	Every   time.Duration // from one renewal to the next; zero or negative: there are none
	MaxHold time.Duration // from Held to the last renewal; negative: there is no bound
	Longer  time.Duration // by how much MaxHold is prolonged
	Held    clock.Reading // since when the present holder has the lease
	By      time.Time     // the latest time of the next call of Task.Due; not after Validity.Start: there is no limit
}

// A Renewal extends a lease on all masters. It succeeds if a quorum has extended the key before the old
// validity ends. Until then, masters that fail are asked again. The answer that the key is missing, or holds another
// token, is final: somebody may have held the lock meanwhile.
type Renewal struct {
	Start  clock.Reading // immutable; the time before the first byte was sent
	owner  Owner         // immutable
	won    chan struct{} // closed when the renewal has succeeded
	ballot quorum.Ballot
	retry  time.Time // when the masters that failed are asked again; zero: none has failed
}

// An Owner is told of each answer to a renewal. Answered may be called by several goroutines at once.
type Owner interface {
	Answered(r *Renewal, i int, a wire.Answer)
}

// Answered implements master.Asker.
func (r *Renewal) Answered(i int, a wire.Answer) { r.owner.Answered(r, i, a) }

const (
	// slackMost is how much earlier than due a lease may be renewed, so that thousands of leases share
	// commands. It is less for a short TTL.
	slackMost  = 100 * time.Millisecond
	slackParts = 8
	// shortParts and shortMost: a short lease is first renewed when one shortParts-th of its validity has passed, but after shortMost at the
	// latest. What is left then is for a process that is stopped meanwhile.
	shortParts = 4
	shortMost  = 100 * time.Millisecond
)

// Slack returns how much earlier than due a lease may be renewed that is renewed after every.
func Slack(every time.Duration) time.Duration { return min(slackMost, every/slackParts) }

// Until returns the end of validity.
func (v *Validity) Until() time.Time { return v.Start.Time().Add(v.Length) }

// Over reports whether the validity has ended, by any of the clocks.
func (v *Validity) Over(now clock.Reading) bool { return v.Left(now) <= 0 }

// Left returns how much of the validity is left, by the clock that shows the least.
func (v *Validity) Left(now clock.Reading) time.Duration { return v.Length - now.Since(v.Start) }

// Renews returns when the next renewal is due, and reports whether there will be one. MaxHold ends the
// renewals: a lock that is renewed for ever would break the promise that it becomes free by itself. A lease
// that was granted has its TTL only from its first renewal on, so that one is made whatever MaxHold says.
func (v *Validity) Renews(p Plan) (time.Time, bool) {
	every := p.Every
	if v.Short {
		every = min(every, v.Length/shortParts, shortMost)
	}
	at := v.Start.Time().Add(every)
	if p.By.After(v.Start.Time()) && p.By.Before(at) {
		at = p.By
	}
	within := v.Short || p.MaxHold < 0 || at.Sub(p.Held.Time()) < p.MaxHold+p.Longer
	return at, p.Every > 0 && within
}

// Next returns when something is to be done next: a renewal begins, masters that failed are asked again, or the lease ends.
// It may be done up to slack earlier.
func (v *Validity) Next(p Plan) (at time.Time, slack time.Duration) {
	at = v.Until() // a lease never ends early
	if r := v.Pending(); r != nil {
		if !r.retry.IsZero() && r.retry.Before(at) {
			at = r.retry
		}
		return at, 0
	}
	due, renews := v.Renews(p)
	if !renews || !due.Before(at) {
		return at, 0
	}
	if slack = Slack(p.Every); v.Short {
		slack = min(slack, Slack(due.Sub(v.Start.Time())))
	}
	return due, slack
}

// Begin begins a renewal by n masters. The caller asks all of them. Answers to an earlier renewal must not be counted from now on.
func (v *Validity) Begin(now clock.Reading, n int, owner Owner) *Renewal {
	v.current = &Renewal{Start: now, owner: owner, won: make(chan struct{}), ballot: quorum.NewBallot(n)}
	return v.current
}

// Current reports whether r is the last renewal that has begun.
func (v *Validity) Current(r *Renewal) bool { return v.current == r }

// Pending returns the renewal under way, or nil.
func (v *Validity) Pending() *Renewal {
	if r := v.current; r != nil && !r.Succeeded() {
		return r
	}
	return nil
}

// Vote counts the answer of master i to the current renewal. If it is an error, the master is asked again at the time again.
func (v *Validity) Vote(i int, a wire.Answer, again time.Time) {
	if v.void>>i&1 == 1 && a.Done() {
		a = wire.Answer{Outcome: wire.Missing} // as it was when a late poll came
	}
	r := v.current
	r.ballot.Cast(i, a)
	if a.Err != nil && (r.retry.IsZero() || again.Before(r.retry)) {
		r.retry = again
	}
}

// Retry returns the masters, as bits, that have failed, and withdraws their votes, if it is time to ask them again.
func (r *Renewal) Retry(now clock.Reading) (masters uint64) {
	if r.retry.After(now.Time()) {
		return 0
	}
	r.retry = time.Time{}
	for i, vote := range r.ballot.Votes() {
		if vote.Err != nil {
			r.ballot.Withdraw(i)
			masters |= 1 << i
		}
	}
	return masters
}

// A Result is that of the votes on a renewal.
type Result int

// The results.
const (
	Undecided Result = iota // further votes decide
	Succeeded               // the validity is prolonged
	Gone                    // the key is gone at so many masters that somebody else may have held the lock
	Late                    // a quorum has extended the key, after the old validity had ended
)

// Count returns the result of the renewal under way. If it has succeeded, the lease is valid for full, from the start of the renewal.
func (v *Validity) Count(now clock.Reading, full time.Duration) Result {
	r := v.current
	switch tally := r.ballot.Tally(); {
	case tally.RuledOut():
		return Gone
	case !tally.Won():
		return Undecided
	case v.Over(now): // the votes count only if the old validity has not ended
		return Late
	}
	v.Start, v.Length, v.Short, v.void = r.Start, full, false, 0
	close(r.won)
	return Succeeded
}

// Doubt has the next answer of master i not count: the master had lost the key, which may be there again by now. It counts again
// after one renewal has succeeded without it, as a master does that was sent the key again.
func (v *Validity) Doubt(i int) { v.void |= 1 << i }

// Doubted reports whether Doubt was called, and no renewal has succeeded since.
func (v *Validity) Doubted() bool { return v.void != 0 }

// Won returns a channel that is closed when the renewal has succeeded.
func (r *Renewal) Won() <-chan struct{} { return r.won }

// Succeeded reports whether the renewal has succeeded.
func (r *Renewal) Succeeded() bool {
	select {
	case <-r.won:
		return true
	default:
		return false
	}
}

// Votes returns each master's vote so far.
func (r *Renewal) Votes() []quorum.Vote { return r.ballot.Votes() }

// Missing returns the masters, as bits, that have lost the key. They are sent it again only after the renewal has
// succeeded without them. The key counts from the next renewal on, by the order of the commands on
// the connection. If the key counted at once, or a renewal that is retried could set it, that would hide
// that the keys had expired and somebody else had held the lock.
func (r *Renewal) Missing() (masters uint64) {
	for i, vote := range r.ballot.Votes() {
		if vote.Outcome == wire.Missing {
			masters |= 1 << i
		}
	}
	return masters
}

// ErrUnrenewed says that too few masters have answered a renewal.
var ErrUnrenewed = errors.New("no quorum of masters renewed it in time")

// WhyOver returns why the lease was not renewed before its validity ended.
func (v *Validity) WhyOver(now clock.Reading, p Plan) error {
	late := now.Time().Sub(v.Until())
	_, renews := v.Renews(p)
	switch {
	case late < 0:
		return fmt.Errorf("the machine slept, or its clock was set: by one clock %v have passed, by another %v",
			now.Time().Sub(v.Start.Time()).Round(time.Millisecond), now.Since(v.Start).Round(time.Millisecond))
	case p.Every < 0:
		return fmt.Errorf("its validity of %v has ended, and renewal is off", v.Length)
	case !renews:
		return fmt.Errorf("it was held for longer than MaxHold, %v", p.MaxHold)
	case v.Pending() != nil:
		return ErrUnrenewed
	}
	return fmt.Errorf("this process was stopped: validity ended %v ago", late.Round(time.Millisecond))
}
