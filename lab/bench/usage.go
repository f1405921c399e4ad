package main

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/lab/internal/measure"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// now returns the time of CLOCK_MONOTONIC, which all processes of this machine
// share. time.Now reads the same clock, many times faster than a system call
// can, but from an epoch of each process, which is looked for once.
func now() int64 {
	e := epoch()
	return e.clock + int64(time.Since(e.at))
}

// instant is one moment by both.
type instant struct {
	at    time.Time
	clock int64
}

var epoch = sync.OnceValue(func() instant {
	var best instant
	narrowest := time.Duration(math.MaxInt64)
	for range 100 {
		before := time.Now()
		clock := measure.Clock()
		if width := time.Since(before); width < narrowest { // the error is at most that
			narrowest = width
			best = instant{before.Add(width / 2), clock}
		}
	}
	return best
})

// sleepUntil sleeps until that time of now.
func sleepUntil(at int64) { time.Sleep(time.Duration(at - now())) }

// load is what a server has done since it started.
type load struct {
	cpu      time.Duration
	commands int64 // of clients and of scripts, without the benchmark's and the connections' own
	scripts  int64 // EVALSHA
}

func (l load) plus(m load) load {
	return load{l.cpu + m.cpu, l.commands + m.commands, l.scripts + m.scripts}
}

func (l load) minus(m load) load {
	return load{l.cpu - m.cpu, l.commands - m.commands, l.scripts - m.scripts}
}

// administrative commands are not counted: they belong to connecting, or are
// this benchmark's.
var administrative = []string{"info", "hello", "client", "ping", "select", "config", "command", "auth"}

// loadOf returns what the benchmark counts of a server's load.
func loadOf(all servers.Load) load {
	l := load{cpu: all.CPU, scripts: all.Calls["evalsha"]}
	for name, n := range all.Calls {
		if !isAdministrative(name) {
			l.commands += n
		}
	}
	return l
}

func isAdministrative(name string) bool {
	name, _, _ = strings.Cut(name, "|")
	for _, a := range administrative {
		if name == a {
			return true
		}
	}
	return false
}
