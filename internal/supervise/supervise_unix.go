//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"os/signal"
	"syscall"
)

// Supported says whether there are supervisors here.
const Supported = true

// ignoreSignals ignores what asks processes to end or to stop. A supervisor ends with its input only: a signal that asks all processes of a
// service to end comes while those that it is to kill may still work.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
}

func kill(id int) { syscall.Kill(id, syscall.SIGKILL) }
