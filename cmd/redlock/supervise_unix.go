//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// supervised says whether processes have a supervisor here.
const supervised = true

// ownProgram returns the file of this program. On Linux, it also exists when another version has taken its place.
func ownProgram() (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return os.Executable()
}

// detach puts the process of a command in a process group of its own.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// superviseProcesses is the life of a supervisor. It ends with its input only: a signal that asks all processes of a service to end
// comes while the command may still work.
func superviseProcesses() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	supervise(os.Stdin, func(id int) { syscall.Kill(id, syscall.SIGKILL) })
}
