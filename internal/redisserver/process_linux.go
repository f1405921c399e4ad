package redisserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// parent runs the functions sent to it on one thread that never ends. The kernel sends a child its Pdeathsig
// when the *thread* that started it ends, and the Go runtime ends idle threads at any time. So children that
// an ordinary goroutine started would die at random.
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

// startChild starts cmd such that it dies when this process ends, for whatever reason.
func startChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	parent() <- func() { started <- cmd.Start() }
	return <-started
}

// reserve keeps other tests of this machine from using a port until the Closer is closed, or this process ends.
// Otherwise a new server could take the port of one that a test has killed. The clients of the killed server
// would then talk to the new one, and the killed one could not be restarted. The name is one of Linux's
// abstract sockets, which leave no file.
func reserve(port int) (io.Closer, error) {
	return net.Listen("unix", fmt.Sprint("@redisserver-port-", port))
}

// awaitStopped returns when the process has stopped. It is needed because kill(2) returns earlier, while the
// process may still be running on another CPU.
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
