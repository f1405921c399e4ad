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

// number returns the number by which the shells of other systems know a signal.
func number(s os.Signal) int {
	if s == os.Interrupt {
		return 2
	}
	return 15
}

func shortOfResources(error) bool { return false }

// A process is a running command. Here there is no asking it to end, and what it has started
// is out of reach: when the lease is not renewed, the command alone is killed.
type process struct {
	news chan news
	cmd  *exec.Cmd
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{news: make(chan news, 1), cmd: cmd}
	go func() {
		cmd.Wait() // its error says no more than the status
		p.news <- news{ended: true, status: cmd.ProcessState.ExitCode()}
	}()
	return p, nil
}

// pass does nothing for Ctrl-C, which the console sends to all its processes.
func (p *process) pass(s os.Signal) {
	if s != os.Interrupt {
		p.kill()
	}
}

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
