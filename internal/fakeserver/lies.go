package fakeserver

import (
	"strings"
	"sync"
)

// Lies replace some replies of a healthy server.
type Lies struct {
	mu      sync.Mutex // guards the fields below
	healthy int
	list    []string
}

// NewLies returns Lies that leave the first healthy replies as they are. The replies after these are taken
// from the list, whose elements are separated by zero bytes. An empty element stands for the healthy reply.
// When the list is used up, all replies are healthy.
func NewLies(healthy int, list []byte) *Lies {
	l := &Lies{healthy: healthy}
	if len(list) > 0 {
		l.list = strings.Split(string(list), "\x00")
	}
	return l
}

// Replace returns the reply to send instead of a healthy one.
func (l *Lies) Replace(reply string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healthy > 0 {
		l.healthy--
		return reply
	}
	if len(l.list) == 0 {
		return reply
	}
	lie := l.list[0]
	l.list = l.list[1:]
	if lie == "" {
		return reply
	}
	return lie
}

// End makes all further replies healthy.
func (l *Lies) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}
