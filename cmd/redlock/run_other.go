//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// listen returns an inbox that gets this process's signals.
func listen() *inbox {
	in := &inbox{signals: make(chan os.Signal, 16)}
	signal.Notify(in.signals, os.Interrupt, syscall.SIGTERM)
	return in
}

func (in *inbox) close() { signal.Stop(in.signals) }

// number returns the number that a signal has on Unix.
func number(s os.Signal) int {
	if s == os.Interrupt {
		return 2
	}
	return 15
}

func shortOfResources(error) bool { return false }

// A process is a running command. On this system redlock can neither ask the command to end nor
// reach the processes that it has started. If the lease is not renewed, redlock kills the command
// alone.
type process struct {
	changes chan change
	cmd     *exec.Cmd
}

func startProcess(cmd *exec.Cmd, _ func(error)) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{changes: make(chan change, 1), cmd: cmd}
	go func() {
		cmd.Wait() // its error says no more than the status
		p.changes <- change{ended: true, status: cmd.ProcessState.ExitCode()}
	}()
	return p, nil
}

// pass ignores Ctrl-C, which the console sends to all its processes itself.
func (p *process) pass(s os.Signal) {
	if s != os.Interrupt {
		p.kill()
	}
}

// asksToEnd returns false: no process of the command can be reached when it has ended.
func asksToEnd(os.Signal, int) bool { return false }

func (p *process) terminate() { p.kill() }

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *process) leftovers() bool { return false }
func (p *process) suspend()        {}
func (p *process) resume()         {}
func (p *process) free()           {}

// terminalSize returns 0: how large a terminal is, is not known on this system.
func terminalSize(*os.File) (rows, columns int) { return 0, 0 }
