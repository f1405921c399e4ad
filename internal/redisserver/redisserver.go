// Package redisserver starts real redis-server processes on loopback ports, for
// tests and benchmarks. They are what redlocktest's embedded masters are not:
// other processes, with a run_id, a disk, a kernel between them and the client,
// and a clock that the test does not own.
//
// A server does not outlive the process that started it on Linux, even if that
// is killed. Elsewhere [Server.Stop] has to be reached. Freezing needs a Unix.
package redisserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	startTimeout = 10 * time.Second // from exec to PONG, loading included; it is milliseconds unless the machine is busy
	adminTimeout = 2 * time.Second  // each step of Do
)

// ErrStopped is returned by methods of a Server after Stop.
var ErrStopped = errors.New("redisserver: the server was stopped")

// Server is one redis-server, over all its lives: Kill and Restart keep its
// address and its directory. Its methods may be called by several goroutines.
type Server struct {
	port int      // immutable
	dir  string   // immutable
	args []string // the whole command line; immutable
	env  []string // immutable
	auth string   // what --requirepass asks for; immutable

	life chan struct{} // one slot, taken by whoever starts or kills

	mu      sync.Mutex // guards what follows; never held while waiting
	proc    *process   // the latest life, running or not
	stopped bool       // see Stop
}

// process is one life of a server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it is reaped
}

// Start starts a redis-server and returns when it answers. It listens on
// a free port of 127.0.0.1, in a temporary directory of its own, and persists
// nothing. Further args, such as "--appendonly", "yes", come last on its command
// line and win; they must not set the port or the directory. It inherits the
// environment as it is now, for all its lives.
//
// The caller has to call Stop.
func Start(args ...string) (*Server, error) {
	var err error
	for range 10 {
		var s *Server
		// Between the choice of a port and its use, somebody else may take it.
		if s, err = startOnce(args); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

func startOnce(args []string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redisserver-")
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	s := &Server{
		port: port,
		dir:  dir,
		args: append([]string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--appendonly", "no", "--daemonize", "no",
		}, args...),
		env:  os.Environ(),
		auth: password(args),
		life: make(chan struct{}, 1),
	}
	if err := s.launch(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// password returns the value of the last --requirepass.
func password(args []string) string {
	p := ""
	for i := 1; i < len(args); i++ {
		if strings.EqualFold(args[i-1], "--requirepass") {
			p = args[i]
		}
	}
	return p
}

// Addr returns the server's address, "127.0.0.1:port".
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Dir returns the server's directory: its persistence files and its output,
// redis.log.
func (s *Server) Dir() string { return s.dir }

// PID returns the process id of the server's present life, of its last one
// while it is killed.
func (s *Server) PID() int {
	if p := s.process(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Do sends one command over a connection of its own, and returns its reply. It
// fails after 2 s at a server that is frozen.
func (s *Server) Do(command string, args ...any) (any, error) {
	c, err := s.dial()
	if err != nil {
		return nil, fmt.Errorf("redisserver: %s: %w", command, err)
	}
	defer c.Close()
	reply, err := c.Do(command, args...)
	if err != nil {
		return nil, fmt.Errorf("redisserver: %s: %w", command, err)
	}
	return reply, nil
}

// Freeze stops the process by SIGSTOP, and returns when it stands still. Dials
// still succeed, and what is sent is executed after Thaw.
func (s *Server) Freeze() error {
	if err := freeze(s.process()); err != nil {
		return fmt.Errorf("redisserver: freeze: %w", err)
	}
	return nil
}

// Thaw lets a frozen process go on, by SIGCONT.
func (s *Server) Thaw() error {
	if err := thaw(s.process()); err != nil {
		return fmt.Errorf("redisserver: thaw: %w", err)
	}
	return nil
}

// Kill ends the process by SIGKILL, frozen or not, and returns when it is gone.
// What it had written to its files stays, even unsynced: the kernel still has
// it. Killing a killed server does nothing.
func (s *Server) Kill() error {
	s.life <- struct{}{}
	defer func() { <-s.life }()
	return s.kill()
}

// Restart starts the server again, with the same address, directory, arguments
// and environment, and returns when it answers. A server that runs is killed
// before.
func (s *Server) Restart() error {
	s.life <- struct{}{}
	defer func() { <-s.life }()
	s.mu.Lock()
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return ErrStopped
	}
	if err := s.kill(); err != nil {
		return err
	}
	return s.launch()
}

// Stop thaws and kills the process and removes its directory. Afterwards the
// Server cannot be restarted. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.life <- struct{}{}
	defer func() { <-s.life }()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	thaw(s.process()) // SIGKILL alone would do; an error means that it is gone
	s.kill()
	os.RemoveAll(s.dir)
}

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// kill kills and reaps the process. The caller has taken life.
func (s *Server) kill() error {
	p := s.process()
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("redisserver: kill: %w", err)
	}
	<-p.done
	return nil
}

// launch starts a process and waits until it answers. The caller has taken
// life, or is the only one to know s.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command("redis-server", s.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, log, log
	if err := startChild(cmd); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		cmd.Wait() // how it ended, its log says
	}()
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	if err := s.awaitReady(p); err != nil {
		s.kill()
		return err
	}
	return nil
}

// errPortTaken means that another port may help.
var errPortTaken = errors.New("the port is taken")

// awaitReady returns when this process, and no other on the same port, answers.
func (s *Server) awaitReady(p *process) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for {
		ready, err := s.ready(p)
		if ready {
			return nil
		}
		select {
		case <-p.done:
			log := s.logTail()
			if strings.Contains(log, "Address already in use") {
				return fmt.Errorf("redisserver: %w: %s", errPortTaken, s.Addr())
			}
			return fmt.Errorf("redisserver: redis-server ended at once: %s", log)
		case <-timeout.C:
			return fmt.Errorf("redisserver: no answer within %v: %w", startTimeout, err)
		case <-time.After(time.Millisecond):
		}
	}
}

// ready reports whether the process answers PING with PONG, hence has loaded
// what it had to.
func (s *Server) ready(p *process) (bool, error) {
	if _, err := s.Do("PING"); err != nil {
		return false, err
	}
	info, err := redis.String(s.Do("INFO", "server"))
	if err != nil {
		return true, nil // forbidden by args; then the port's choice has to do
	}
	if want := fmt.Sprintf("process_id:%d\r", p.cmd.Process.Pid); !strings.Contains(info, want) {
		return false, fmt.Errorf("another server answers on %s", s.Addr())
	}
	return true, nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// logTail returns the end of the server's output, in one line.
func (s *Server) logTail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], "; ")
}
