package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// masters is how many there are.
const masters = 5

// A fleet is the masters.
type fleet []*server

// A server is one master: a redis-server with an append-only file and, where
// libfaketime is installed, a wall clock that can be set.
type server struct {
	*redisserver.Server
	steps bool // its clock can be set: there is libfaketime

	busy sync.Mutex // taken by the fault that has the process in hand
}

// startFleet starts the masters and adopts them, since nobody holds a lock there yet. users are the arguments for the users of the
// clients. The masters do not use fsync: the kernel keeps what a killed process has written, and the fault that loses the tail of the
// file truncates it.
func startFleet(users []string) (f fleet, err error) {
	lib := faketime()
	if lib != "" {
		for name, value := range map[string]string{
			"LD_PRELOAD":                   lib + ":libc.so.6", // libc's malloc first, because jemalloc asks for the time too early
			"FAKETIME_TIMESTAMP_FILE":      clockFile,
			"FAKETIME_NO_CACHE":            "1",
			"FAKETIME_DONT_FAKE_MONOTONIC": "1",
		} {
			os.Setenv(name, value)
			defer os.Unsetenv(name)
		}
	}
	all, err := servers.Adopted(masters, append([]string{"--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"}, users...)...)
	for _, s := range all {
		f = append(f, &server{Server: s, steps: lib != ""})
	}
	return f, err
}

// clockFile has the offset of a server's clock, in the server's directory, which is its working directory. Without the file the clock is
// right.
const clockFile = "clock"

// faketime returns the path of libfaketime, or "".
func faketime() string {
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libraries) == 0 {
		return ""
	}
	return libraries[0]
}

func (f fleet) stop() {
	for _, s := range f {
		s.Stop()
	}
}

// setClock sets the server's wall clock to be off by an offset.
func (s *server) setClock(offset time.Duration) error {
	// The rename makes sure that the server never reads half a file.
	text := fmt.Sprintf("%+.3f\n", offset.Seconds())
	file := filepath.Join(s.Dir(), clockFile)
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// aof returns the append-only file that the server writes to.
func (s *server) aof() (string, error) {
	files, err := filepath.Glob(filepath.Join(s.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, errors.New("there is no append-only file"))
	}
	return slices.Max(files), nil
}

// What data a server has after a restart.
const (
	rememberAll     = "all"
	rememberNothing = "nothing"
	rememberOld     = "old" // all but the tail of the append-only file
)

// crash kills the server and restarts it after down. With rememberOld, what the server has written
// in the last moments, of length tail, is cut off its append-only file.
func (s *server) crash(memory string, tail, down time.Duration) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	file, err := s.aof()
	if err != nil {
		return err
	}
	before, err := os.Stat(file)
	if err != nil {
		return err
	}
	if memory == rememberOld {
		time.Sleep(tail)
	}
	if err := s.Kill(); err != nil {
		return err
	}
	switch memory {
	case rememberOld:
		err = os.Truncate(file, before.Size())
	case rememberNothing:
		err = os.RemoveAll(filepath.Dir(file))
	}
	time.Sleep(down)
	return errors.Join(err, s.Restart())
}

// freeze stops the process for a while.
func (s *server) freeze(length time.Duration) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	if err := s.Freeze(); err != nil {
		return err
	}
	time.Sleep(length)
	return s.Thaw()
}
