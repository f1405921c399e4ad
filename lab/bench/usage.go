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

// administrative commands are not counted: they belong to connecting, or are
// this benchmark's.
var administrative = []string{"info", "hello", "client", "ping", "select", "config", "command", "auth"}

// commandsOf returns how many commands of clients and of scripts there were, without the administrative ones.
func commandsOf(l servers.Load) (all int64) {
	for name, n := range l.Calls {
		if !isAdministrative(name) {
			all += n
		}
	}
	return all
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
