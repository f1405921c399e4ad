package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
)

// superviseCommandName is the hidden command of a supervisor. It has no flags, and begins before the command tree is built: `redlock run`
// starts one for each command.
const superviseCommandName = "supervise"

// A supervisor is a second process of this program, which has the end of a pipe. When the pipe ends, the first process has ended. If
// that was by SIGKILL, it could not end its processes itself, so the supervisor kills them. It is in a process group of its own, so
// that it is killed neither with them nor by a terminal, and has neither the input nor the output of the first process.
//
// A supervisor that is killed together with the first process, such as by `pkill -9 -f redlock`, kills nothing.
type supervisor struct {
	mu      sync.Mutex // guards writes
	in      io.WriteCloser
	encoder *json.Encoder
}

// An order is what a supervisor is told: one JSON object.
type order struct {
	Add, Drop int         `json:",omitempty"` // a process, or with a minus a process group, as of kill(2)
	Leave     *verifyKeys `json:",omitempty"` // to be deleted, if the first process was killed
	End       bool        `json:",omitempty"` // the first process has ended in order
}

// startSupervisor starts a supervisor, or returns nil on a system that has none.
func startSupervisor() (*supervisor, error) {
	if !supervised {
		return nil, nil
	}
	exe, err := ownProgram()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, superviseCommandName)
	cmd.Args[0] = "redlock"
	cmd.Dir = os.TempDir() // not one that somebody may want to unmount or delete
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go cmd.Wait() // so that it is no zombie, if this process lives on
	return &supervisor{in: in, encoder: json.NewEncoder(in)}, nil
}

// tell gives an order. A nil supervisor gets none, and neither does one that was killed.
func (s *supervisor) tell(o order) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.encoder.Encode(o)
	}
}

// end ends the supervisor.
func (s *supervisor) end() {
	if s != nil {
		s.tell(order{End: true})
		s.in.Close()
	}
}

// supervise is the life of a supervisor: it reads orders until their end.
func supervise(in io.Reader, kill func(id int)) {
	ids := make(map[int]bool)
	var keys *verifyKeys
	for orders := json.NewDecoder(in); ; {
		var o order
		if orders.Decode(&o) != nil {
			break
		}
		if o.End {
			return
		}
		if o.Add != 0 {
			ids[o.Add] = true
		}
		delete(ids, o.Drop)
		if o.Leave != nil {
			keys = o.Leave
		}
	}
	for id := range ids {
		kill(id)
	}
	if keys != nil && keys.Masters != nil {
		keys.delete()
	}
}
