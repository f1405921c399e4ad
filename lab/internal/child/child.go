// Package child starts the worker processes of the programs of the lab. A worker is the program itself again. Its environment says
// that it is one, its standard input has orders, and its standard output has answers.
package child

import (
	"io"
	"os"
	"os/exec"
)

// A Worker is a worker process. It must end when its input does, so that none outlives its parent.
type Worker struct {
	*exec.Cmd
	In  io.WriteCloser
	Out io.Reader
}

// Start starts a program, or the one that runs if program is "", with more of an environment. Its errors go to stderr.
func Start(program string, stderr *os.File, env ...string) (*Worker, error) {
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p := &Worker{Cmd: exec.Command(program)}
	p.Env = append(os.Environ(), env...)
	p.Stderr = stderr
	var err error
	if p.In, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Out, err = p.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.Cmd.Start()
}

// Kill ends the process by SIGKILL, and returns when it has ended.
func (p *Worker) Kill() {
	p.Process.Kill()
	p.Wait()
}
