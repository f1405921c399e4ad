package redisserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// parent runs the functions sent to it on one thread, for ever. The kernel
// sends a child's Pdeathsig when the *thread* that started it ends, and the Go
// runtime ends idle threads as it likes: children of an ordinary goroutine die
// at random.
var parent = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range c {
			f()
		}
	}()
	return c
})

// startChild starts cmd so that it dies with this process, however that ends.
func startChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	parent() <- func() { started <- cmd.Start() }
	return <-started
}

// awaitStopped returns when the process stands still. kill(2) returns before
// that: the process may be running on another CPU.
func awaitStopped(pid int) error {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// "pid (name) state …", where the name may contain anything.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i+1:], []byte(" T")) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", pid)
}
