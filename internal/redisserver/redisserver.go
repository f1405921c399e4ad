// Package redisserver starts real redis-server processes on loopback ports, for tests and benchmarks. Unlike
// redlocktest's embedded masters they are separate processes. They have a run_id, a disk, a clock that the
// test does not control, and a kernel between them and the client.
//
// On Linux a server ends with the process that started it, even if that process is killed. On other systems
// the process must call [Server.Stop]. Freezing needs a Unix system.
package redisserver

import (
	"errors"
	"fmt"
	"io"
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
	startTimeout = 30 * time.Second // from exec to PONG, including loading; normally milliseconds
	adminTimeout = 10 * time.Second // each step of Do; a busy machine may need seconds
)

// ErrStopped is returned by methods of a Server after Stop.
var ErrStopped = errors.New("redisserver: the server was stopped")

// Server is one redis-server. Kill and Restart keep its address and its directory. Several goroutines may
// call its methods at once.
type Server struct {
	port int       // immutable
	held io.Closer // reserves the port until Stop; immutable
	dir  string    // immutable
	args []string  // the complete command line; immutable
	env  []string  // immutable
	auth string    // the password of --requirepass, "" for none; immutable

	life chan struct{} // one slot, taken while starting or killing

	mu      sync.Mutex // guards the fields below; never held while waiting
	proc    *process   // the latest process, running or not
	stopped bool       // see Stop
}

// process is one process of a server. Each Restart starts another.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been reaped
}

// Start starts a redis-server and returns when it answers. The server listens on a free port of 127.0.0.1,
// has a temporary directory of its own, and persists nothing. Further args, such as "--appendonly", "yes",
// are appended to its command line and take precedence. They must not set the port or the directory. The
// server inherits the present environment, also when it is restarted.
//
// The caller must call Stop.
func Start(args ...string) (*Server, error) {
	var err error
	for range 10 {
		var s *Server
		// Another process may take the port before the server uses it.
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
	port, held, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redisserver-")
	if err != nil {
		held.Close()
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	config := filepath.Join(dir, "redis.conf") // a Sentinel does not start without one
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		held.Close()
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	s := &Server{
		port: port,
		held: held,
		dir:  dir,
		args: append([]string{
			config, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
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

// Dir returns the server's directory. It contains the persistence files and the output of the server,
// redis.log.
func (s *Server) Dir() string { return s.dir }

// PID returns the process id of the server. After Kill it is that of the process that was killed.
func (s *Server) PID() int {
	if p := s.process(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Do sends one command on a new connection and returns the reply. If the server is frozen, it fails after
// 10 s.
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

// Freeze stops the process by SIGSTOP, and returns when it has stopped. Dials still succeed, and what is sent
// is executed after Thaw.
func (s *Server) Freeze() error {
	if err := freeze(s.process()); err != nil {
		return fmt.Errorf("redisserver: freeze: %w", err)
	}
	return nil
}

// Thaw continues a frozen process by SIGCONT.
func (s *Server) Thaw() error {
	if err := thaw(s.process()); err != nil {
		return fmt.Errorf("redisserver: thaw: %w", err)
	}
	return nil
}

// Kill ends the process by SIGKILL, frozen or not, and returns when it is gone. What the process had written
// to its files is kept, even what it had not synced, since the kernel has it. Killing a killed server does
// nothing.
func (s *Server) Kill() error {
	s.life <- struct{}{}
	defer func() { <-s.life }()
	return s.kill()
}

// Restart starts the server again with the same address, directory, arguments and environment, and returns
// when it answers. If the server is running, Restart kills it first.
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

// Stop thaws and kills the process and removes its directory. After Stop the server cannot be restarted.
// Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.life <- struct{}{}
	defer func() { <-s.life }()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	thaw(s.process()) // SIGKILL alone would be enough; an error means that the process is gone
	s.kill()
	s.held.Close()
	os.RemoveAll(s.dir)
}

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// kill kills and reaps the process. The caller must hold the slot of life.
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

// launch starts a process and waits until it answers. The caller must hold the slot of life, or be the only
// one to use s.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command("redis-server", s.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, log, log
	if err := startChild(cmd); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		cmd.Wait() // the reason is in its log
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

// errPortTaken means that another port may work.
var errPortTaken = errors.New("the port is taken")

// awaitReady returns when this process answers, and not another one on the same port.
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

// ready reports whether the process answers PING with PONG, which means that it has finished loading.
func (s *Server) ready(p *process) (bool, error) {
	if _, err := s.Do("PING"); err != nil {
		return false, err
	}
	info, err := redis.String(s.Do("INFO", "server"))
	if err != nil {
		return true, nil // args forbid the command; rely on the choice of the port
	}
	if want := fmt.Sprintf("process_id:%d\r", p.cmd.Process.Pid); !strings.Contains(info, want) {
		return false, fmt.Errorf("another server answers on %s", s.Addr())
	}
	return true, nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// logTail returns the end of the server's output as one line.
func (s *Server) logTail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], "; ")
}
