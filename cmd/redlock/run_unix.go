//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// passedOn is what the command hears of the signals that redlock gets. Stopping (TSTP, TTIN,
// TTOU) and the like stay with redlock.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
}

// listen returns an inbox that gets this process's signals. One that is ignored, as nohup
// does with HUP, stays so: the command inherits that.
func listen() *inbox {
	in := &inbox{signals: make(chan os.Signal, 16), continued: make(chan os.Signal, 1)}
	for _, s := range passedOn {
		if !signal.Ignored(s) {
			signal.Notify(in.signals, s)
		}
	}
	signal.Notify(in.continued, syscall.SIGCONT)
	return in
}

func (in *inbox) close() {
	signal.Stop(in.signals)
	signal.Stop(in.continued)
}

// number returns the number of a signal.
func number(s os.Signal) int { return int(s.(syscall.Signal)) }

// shortOfResources reports whether a command did not start for no fault of its own.
func shortOfResources(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A process is a running command in a process group of its own, so that what it has started
// can be ended with it, and nothing else: redlock's own group is its caller's, which in a
// shell's pipeline means everybody's. What a group of its own costs at a terminal, terminal
// makes good.
type process struct {
	news chan news
	pid  int       // of the command, and of its group
	tty  *terminal // nil if there is none
}

// startProcess starts cmd.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{news: make(chan news), tty: openTerminal()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.tty.prepare(cmd.SysProcAttr)
	dieWithUs(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// Never unlocked: a command that dies with us dies with the *thread* that has
		// started it, and the Go runtime ends idle threads as it likes.
		runtime.LockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.wait()
		}
	}()
	if err := <-started; err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// wait sends the command's news, the last of which is its end. It waits by itself, since
// exec.Cmd does not tell when a command stops; with files for its input and output there is
// nothing else that exec.Cmd would do at the end.
func (p *process) wait() {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			panic("redlock: bug: waiting for the command: " + err.Error()) // nobody else reaps it
		case ws.Exited():
			p.news <- news{ended: true, status: ws.ExitStatus()}
			return
		case ws.Signaled():
			p.news <- news{ended: true, status: exitSignal + int(ws.Signal())}
			return
		case ws.Stopped() && ws.StopSignal() != syscall.SIGSTOP && p.tty != nil:
			p.news <- news{} // else somebody has stopped it who will know when to continue it
		}
	}
}

// signalGroup sends s to the command's group. A group's id is not used again while it has a
// member; between the end of the last one and our notice of it the kernel would have to hand
// out all its other ids first.
func (p *process) signalGroup(s syscall.Signal) error {
	err := syscall.Kill(-p.pid, s)
	if err == syscall.ESRCH {
		return nil // gone already
	}
	return err
}

// pass passes a signal of ours on. What asks to end goes to the whole group, as a terminal
// sends it; what only the command can know the meaning of, and what kills those who do not
// know it, to the command alone.
func (p *process) pass(s os.Signal) {
	switch sig := s.(syscall.Signal); sig {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		syscall.Kill(p.pid, sig)
	default:
		p.signalGroup(sig)
	}
}

// terminate asks the command to end.
func (p *process) terminate() {
	p.signalGroup(syscall.SIGTERM)
	p.signalGroup(syscall.SIGCONT) // or it would not hear that while it is stopped
}

// kill ends the command, also if it is stopped.
func (p *process) kill() error { return p.signalGroup(syscall.SIGKILL) }

// leftovers reports whether the group of the command, which has ended, still has members.
func (p *process) leftovers() bool { return syscall.Kill(-p.pid, 0) != syscall.ESRCH }

// settle is how long a stop of our own may take to come into effect.
const settle = 100 * time.Millisecond

// suspend follows the command, which its terminal has stopped: a shell that started redlock
// waits for redlock, and would not come back. It returns when redlock goes on; at once if
// that is not to be stopped, because nobody is there who could continue it.
func (p *process) suspend() {
	if p.tty.wanted() {
		return // it only wants to read the terminal: resume gives it that
	}
	p.tty.reclaim(p.pid)
	syscall.Kill(0, syscall.SIGTSTP) // what the terminal would have done, were we one group
	time.Sleep(settle)
}

// resume lets the command go on, in the foreground if we are there.
func (p *process) resume() {
	p.tty.give(p.pid)
	p.signalGroup(syscall.SIGCONT)
}

// free takes the terminal back.
func (p *process) free() { p.tty.close(p.pid) }
