package main

import (
	"log/slog"
	"os"
	"os/exec"
	"time"
)

// A leaseView is what a job must know of its lease.
type leaseView interface {
	Until() time.Time      // moves forward with each renewal
	Valid() bool           // computed when asked
	Done() <-chan struct{} // closed at the end
	Err() error            // nil while it lasts
}

// lookEvery bounds the time between two looks at the lease. Timers stand still while the
// machine sleeps; what the lease says does not.
const lookEvery = time.Second

// sweepEvery is the time between two looks for processes that have outlived the command.
const sweepEvery = 10 * time.Millisecond

// A job is a command that runs under a lease. Its fields belong to the goroutine in run.
type job struct {
	name  string
	lease leaseView
	grace time.Duration // before the end of validity: SIGTERM
	inbox *inbox
	log   *slog.Logger

	told   bool // the command was told to end, since the lease is not renewed
	killed bool // the command was killed, since the lease has ended
}

// news is what happened to a command. If it has not ended, its terminal has stopped it.
type news struct {
	ended  bool
	status int // if ended: what a shell would call it
}

// run starts cmd, sees to it that it does not outlive the lease, and returns its exit
// status. The error says why it did not start.
func (j *job) run(cmd *exec.Cmd) (status int, err error) {
	if over(j.lease) {
		j.killed = true // before it was born
		return 0, nil
	}
	p, err := startProcess(cmd)
	if err != nil {
		return 0, err
	}
	defer p.free()
	status = j.watch(p)
	if j.told {
		j.sweep(p)
	}
	return status, nil
}

// watch returns when the command has ended.
func (j *job) watch(p *process) (status int) {
	done := j.lease.Done()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		var (
			signal  os.Signal
			goesOn  bool
			stopped bool
		)
		select {
		case n := <-p.news:
			if n.ended {
				return n.status
			}
			stopped = true
		case <-done:
			done = nil // guard knows
		case signal = <-j.inbox.signals:
		case <-j.inbox.continued:
			goesOn = true
		case <-look.C:
		}
		// The lease comes first, whatever has woken us: we may have been stopped beyond it,
		// and several channels be ready, of which select takes any.
		look.Reset(j.guard(p))
		if signal != nil {
			p.pass(signal)
		}
		if stopped && !j.killed {
			p.suspend() // time has passed when it returns
			look.Reset(j.guard(p))
			goesOn = true
		}
		if goesOn && !j.killed {
			p.resume()
		}
	}
}

// guard ends the command if the lease asks for that, and returns when to look again.
func (j *job) guard(p *process) time.Duration {
	if over(j.lease) {
		first := !j.killed
		j.killed = true
		if err := p.kill(); err != nil && first {
			// It runs with other rights than ours, as under sudo.
			j.log.Error("redlock: the lease was lost, and the command cannot be killed", "name", j.name, "err", err)
		}
		return lookEvery
	}
	left := time.Until(j.lease.Until())
	if left > j.grace {
		return min(left-j.grace, lookEvery)
	}
	if !j.told {
		j.told = true
		p.terminate()
		j.log.Error("redlock: the lease cannot be renewed: ending the command",
			"name", j.name, "left", left.Round(time.Millisecond))
	}
	return min(max(left, time.Millisecond), lookEvery)
}

// sweep gives the processes that the command has left behind what is left of the lease, and
// then kills them: a shell that is told to end does not wait for what it has started.
func (j *job) sweep(p *process) {
	// Should the lease have been renewed after all, the time they were promised stays.
	for end := j.lease.Until(); p.leftovers(); {
		if over(j.lease) || !time.Now().Before(end) {
			p.kill()
			return
		}
		time.Sleep(sweepEvery)
	}
}

// over reports whether nobody may rely on the lease any more.
func over(l leaseView) bool { return l.Err() != nil || !l.Valid() }
