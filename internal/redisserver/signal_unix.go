//go:build unix

package redisserver

import "syscall"

func freeze(p *process) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.cmd.Process.Pid)
}

func thaw(p *process) error {
	if p == nil {
		return nil // the process was never started
	}
	return p.cmd.Process.Signal(syscall.SIGCONT)
}
