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

	"github.com/redlock-go/redlock/internal/supervise"
)

// passedOn lists the signals that redlock passes on to the command. The signals that stop a
// process (TSTP, TTIN, TTOU) are not among them.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
}

// listen returns an inbox for the signals of this process. A signal that is ignored, as HUP is
// under nohup, stays ignored, and the command inherits that.
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

// shortOfResources reports whether a command did not start because the system lacks resources.
func shortOfResources(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A process is a running command in a process group of its own. So redlock can end the command
// with all processes that it has started, and no others: redlock's own group belongs to its
// caller, and contains a whole pipeline of a shell. See terminal for what else this requires.
type process struct {
	changes    chan change
	pid        int         // of the command, and of its group
	tty        *terminal   // nil if there is none
	supervisor *supervisor // kills the group if this process is killed; nil if it could not be started
}

// startProcess starts cmd, and before it the supervisor, for which it does not wait. If there can be no supervisor, unsupervised is called.
func startProcess(cmd *exec.Cmd, unsupervised func(error)) (*process, error) {
	p := &process{changes: make(chan change), tty: openTerminal()}
	var err error
	if p.supervisor, err = startSupervisor(); err != nil {
		unsupervised(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.tty.prepare(cmd.SysProcAttr)
	dieWithUs(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The thread is never unlocked. On Linux the kernel kills the command when the
		// *thread* that has started it ends, and the Go runtime may end idle threads.
		runtime.LockOSThread()
		err := cmd.Start()
		if errors.Is(err, syscall.ENOEXEC) {
			cmd = scriptOf(cmd)
			err = cmd.Start()
		}
		if err == nil {
			p.pid = cmd.Process.Pid
			p.supervisor.tell(supervise.Add(-p.pid))
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

// scriptOf returns the command that runs a file that the system cannot execute, such as a script that does not begin with #!. As with
// execvp(3), by which cron, timeout, nohup and flock run commands, it is a script of sh.
func scriptOf(cmd *exec.Cmd) *exec.Cmd {
	return &exec.Cmd{
		Path: "/bin/sh", Args: append([]string{"sh", cmd.Path}, cmd.Args[1:]...), Env: cmd.Env,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, SysProcAttr: cmd.SysProcAttr,
	}
}

// adopts says that this process gets the processes that others have left behind as children: it is the first one of a container.
var adopts = os.Getpid() == 1

// wait sends the changes of the command's state, the last of which is its end. It does not use
// exec.Cmd.Wait, which does not report that a command was stopped. Since the command's input and
// output are files, exec.Cmd.Wait would do nothing else. A process that adopts waits for all children, also after the end of the
// command, so that none stays in the table of processes when it has ended.
func (p *process) wait() {
	which := p.pid
	if adopts {
		which = -1
		defer p.reap()
	}
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(which, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			panic("redlock: bug: waiting for the command: " + err.Error()) // nothing else waits for it
		case pid != p.pid: // one that was left behind
		case ws.Exited():
			p.changes <- change{ended: true, status: ws.ExitStatus()}
			return
		case ws.Signaled():
			p.changes <- change{ended: true, status: exitSignal + int(ws.Signal())}
			return
		case ws.Stopped() && ws.StopSignal() != syscall.SIGSTOP && p.tty != nil:
			p.changes <- change{} // by the terminal; a sender of SIGSTOP also sends SIGCONT
		}
	}
}

// reap waits for the children that are left. Without a child there is no process that could leave one behind.
func (p *process) reap() {
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && err != syscall.EINTR {
			return
		}
	}
}

// signalGroup sends s to the command's group. The kernel does not reuse the id of a group that has
// a member. Between the end of the last member and its notice here, the kernel would have to use up
// all other ids first.
func (p *process) signalGroup(s syscall.Signal) error {
	err := syscall.Kill(-p.pid, s)
	if err == syscall.ESRCH {
		return nil // it has ended already
	}
	return err
}

// pass passes a signal on. INT and QUIT go to the whole group, as a terminal sends them. The others go to the command alone, as from
// systemd, docker or tini: a server that is asked to end in order, or to read its settings again, manages its processes itself, and they
// may not expect the signal. A shell without a trap ends at once and leaves its processes: see asksToEnd.
func (p *process) pass(s os.Signal) {
	switch sig := s.(syscall.Signal); sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		p.signalGroup(sig)
	default:
		syscall.Kill(p.pid, sig)
	}
}

// asksToEnd reports whether a command that ended with a status did so because of s, which was passed on. Then the processes of its group
// that are left are asked to end, too.
func asksToEnd(s os.Signal, status int) bool {
	switch sig := s.(syscall.Signal); sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		return true
	default:
		return status == exitSignal+int(sig)
	}
}

// terminate asks the command to end.
func (p *process) terminate() {
	p.signalGroup(syscall.SIGTERM)
	p.signalGroup(syscall.SIGCONT) // else a stopped command would not get the SIGTERM
}

// kill kills the command, also while it is stopped.
func (p *process) kill() error { return p.signalGroup(syscall.SIGKILL) }

// leftovers reports whether the group still has members after the command's end. If redlock is the first process of a container, those
// that the command has left behind become its children. Then they are members until somebody has waited for them, so leftovers does.
func (p *process) leftovers() bool {
	for {
		if pid, err := syscall.Wait4(-p.pid, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			break // none has ended
		}
	}
	return syscall.Kill(-p.pid, 0) != syscall.ESRCH
}

// settle is how long it may take until a stop signal that redlock sends itself takes effect.
const settle = 100 * time.Millisecond

// suspend stops redlock after the terminal has stopped the command. The shell waits for redlock,
// so its prompt would not return otherwise. suspend returns when redlock continues. If redlock
// cannot be stopped, because nobody could continue it, suspend returns at once.
func (p *process) suspend() {
	if p.tty.wanted() {
		return // the command only needs the terminal, which resume gives it
	}
	p.tty.reclaim(p.pid)
	syscall.Kill(0, syscall.SIGTSTP) // as the terminal does to a single group
	time.Sleep(settle)
}

// resume continues the command, in the foreground if redlock is there.
func (p *process) resume() {
	p.tty.give(p.pid)
	p.signalGroup(syscall.SIGCONT)
}

// free ends the supervisor, and puts redlock back in the foreground.
func (p *process) free() {
	p.supervisor.end()
	p.tty.close(p.pid)
}
