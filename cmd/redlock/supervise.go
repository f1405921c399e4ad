package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"

	"github.com/redlock-go/redlock/internal/supervise"
)

// A supervisor is the end of a pipe to a second process of this program, which kills what this process leaves behind if it is killed: see
// package supervise. The second process is in a process group of its own, so that it is killed neither with the others nor by a terminal, and has
// neither the input nor the output of this one.
//
// A supervisor that is killed together with this process, such as by `pkill -9 -f redlock`, kills nothing.
type supervisor struct{ in io.WriteCloser }

// startSupervisor starts a supervisor, or returns nil on a system that has none.
func startSupervisor() (*supervisor, error) {
	if !supervise.Supported {
		return nil, nil
	}
	exe, err := ownProgram()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, supervise.Name)
	cmd.Args[0] = "redlock"
	cmd.Dir = os.TempDir()                         // not one that somebody may want to unmount or delete
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // it begins earlier, since it needs fewer threads
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go cmd.Wait() // so that it is no zombie, if this process lives on
	return &supervisor{in}, nil
}

// tell gives an order. A nil supervisor gets none, and neither does one that was killed.
func (s *supervisor) tell(order string) {
	if s != nil {
		io.WriteString(s.in, order) // in one piece, as every Write to a file
	}
}

// end ends the supervisor.
func (s *supervisor) end() {
	if s != nil {
		s.tell(supervise.End)
		s.in.Close()
	}
}

// deleteLeft deletes the keys that a verification has left behind, as a supervisor was told.
func deleteLeft(left string) {
	var keys verifyKeys
	if json.Unmarshal([]byte(left), &keys) == nil && keys.Masters != nil {
		keys.delete()
	}
}
