package main

import (
	"log/slog"
	"os"
	"os/exec"
	"time"
)

// A leaseView is what a job uses of its lease. Tests implement it.
type leaseView interface {
	Until() time.Time      // moves forward with each renewal
	Done() <-chan struct{} // closed at the end
	Err() error            // nil while it lasts; computed when asked
}

const (
	// checkEvery is the longest time between two checks of the lease. A timer alone could be
	// late: it stands still while the machine sleeps, and the lease does not.
	checkEvery = time.Second

	// sweepEvery is the time between two checks for processes that the command has left behind.
	sweepEvery = 10 * time.Millisecond
)

// A job is a command that runs under a lease. Only the goroutine that calls run uses its fields.
type job struct {
	name  string
	lease leaseView
	grace time.Duration // before the end of validity: SIGTERM
	inbox *inbox
	log   *slog.Logger
	max   time.Duration // how long the command may run; 0: without a limit

	began time.Time // when the command was started
	late  bool      // it was asked to end, because it has run for max
	kill  time.Time // if late: when it is killed

	passed os.Signal // the last signal that was passed on, or nil
	asked  bool      // the command was asked to end, because the lease cannot be renewed, or because it is late
	killed bool      // the command was killed, because the lease has ended
}

// A change is what happened to a command. If it has not ended, its terminal has stopped it.
type change struct {
	ended  bool
	status int // if it has ended: the exit status as shells report it
}

// run starts cmd, ends it when the lease ends, and returns its exit status. The error says why
// cmd did not start.
func (j *job) run(cmd *exec.Cmd) (status int, err error) {
	if j.lease.Err() != nil {
		j.killed = true // it was not even started
		return 0, nil
	}
	j.began = time.Now()
	p, err := startProcess(cmd, func(err error) {
		j.log.Warn("redlock: if redlock is killed, processes of the command may go on without the lease", "name", j.name, "err", err)
	})
	if err != nil {
		return 0, err
	}
	defer p.free()
	status = j.watch(p)
	switch {
	case j.asked:
		end := j.lease.Until() // if the lease is renewed after all, the processes still have only the time until its first end
		if j.late {
			end = j.kill
		}
		j.sweep(p, end)
	case j.passed != nil && asksToEnd(j.passed, status) && p.leftovers():
		p.terminate()
		j.sweep(p, time.Now().Add(j.grace))
	}
	return status, nil
}

// watch returns the exit status of the command when it has ended. Until then it passes signals
// on and ends the command if the lease ends.
func (j *job) watch(p *process) (status int) {
	done := j.lease.Done()
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		var (
			signal    os.Signal
			continued bool
			stopped   bool
		)
		select {
		case c := <-p.changes:
			if c.ended {
				return c.status
			}
			stopped = true
		case <-done:
			done = nil // guard handles it
		case signal = <-j.inbox.signals:
		case <-j.inbox.continued:
			continued = true
		case <-check.C:
		}
		// Check the lease first, whatever the select has returned. This process may have been
		// stopped for longer than the lease. Then several channels are ready, and select
		// returns any of them.
		check.Reset(j.guard(p))
		if signal != nil {
			j.passed = signal
			p.pass(signal)
		}
		if stopped && !j.killed {
			p.suspend() // it may return much later
			check.Reset(j.guard(p))
			continued = true
		}
		if continued && !j.killed {
			p.resume()
		}
	}
}

// guard asks the command to end if the lease will end soon, and kills it if the lease has ended.
// It returns the time until the next check.
func (j *job) guard(p *process) time.Duration {
	if j.lease.Err() != nil {
		first := !j.killed
		j.killed = true
		if err := p.kill(); err != nil && first {
			// The command runs as another user, for example under sudo.
			j.log.Error("redlock: the lease was lost, and the command cannot be killed", "name", j.name, "err", err)
		}
		return checkEvery
	}
	next := j.limit(p)
	left := time.Until(j.lease.Until())
	if left > j.grace {
		return min(left-j.grace, checkEvery, next)
	}
	if !j.asked {
		j.asked = true
		p.terminate()
		j.log.Error("redlock: the lease cannot be renewed: ending the command",
			"name", j.name, "left", left.Round(time.Millisecond))
	}
	return min(max(left, time.Millisecond), checkEvery, next)
}

// limit asks the command to end if it has run for too long, and kills it if it then has not ended in time. The lease is renewed
// meanwhile. It returns the time until the next check.
func (j *job) limit(p *process) time.Duration {
	switch now := time.Now(); {
	case j.max == 0 || j.asked && !j.late:
		return checkEvery // the lease decides
	case j.late && !now.Before(j.kill):
		p.kill()
		return checkEvery
	case j.late:
		return j.kill.Sub(now)
	case now.Sub(j.began) < j.max:
		return j.began.Add(j.max).Sub(now)
	default:
		j.asked, j.late, j.kill = true, true, now.Add(j.grace)
		p.terminate()
		j.log.Error("redlock: the command has run for too long: ending it", "name", j.name, "max", j.max)
		return j.grace
	}
}

// sweep waits until the processes that the command has left behind end, and kills them at end, or when the lease ends. A shell that gets
// SIGTERM does not wait for the processes that it has started.
func (j *job) sweep(p *process, end time.Time) {
	for p.leftovers() {
		if j.lease.Err() != nil || !time.Now().Before(end) {
			p.kill()
			return
		}
		time.Sleep(sweepEvery)
	}
}

// linger keeps the lease for longer, unless a signal comes. It reports whether it did.
func (j *job) linger(d time.Duration) bool {
	if d <= 0 || j.asked && !j.late || j.killed {
		return false
	}
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-end.C:
	case <-j.inbox.signals:
	case <-j.lease.Done():
		j.log.Warn("redlock: the lease was lost after the command had ended, so others may run it early", "name", j.name, "err", j.lease.Err())
	}
	return true
}
