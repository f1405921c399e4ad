package master

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// A user may have the right to set a lock's key, and lack the right to renew or delete it. Then a lock
// could be acquired, and would be lost at its first renewal. So the rights are tried on connecting, in
// the same flush as the other questions.

// A right is a command that every lock needs, with arguments that change nothing. The server checks
// the user's rights before the arguments.
type right struct {
	name string
	args func(sample string) []any
}

var lockRights = []right{
	{"SET", func(sample string) []any { return []any{sample, "x", "PX", 0} }}, // fails: no valid expiry
	{"GET", func(sample string) []any { return []any{sample} }},
	{"PEXPIRE", func(sample string) []any { return []any{sample, 1} }}, // no such key
	{"DEL", func(sample string) []any { return []any{sample} }},
	{"EVALSHA", func(sample string) []any { return []any{batchSHA, 1, sample, "", "undo", ""} }}, // nothing to undo
}

var guardRights = []right{{"PTTL", func(string) []any { return []any{incarnation.Key} }}}

// rights returns what the master's commands need, or nothing without a sample key.
func (s *supervisor) rights() []right {
	switch {
	case s.cfg.Sample == "":
		return nil
	case s.cfg.Guard:
		return append(lockRights[:len(lockRights):len(lockRights)], guardRights...)
	}
	return lockRights
}

// sendRights sends a try of each right. The script must have been loaded before.
func (s *supervisor) sendRights(conn redis.Conn) {
	for _, r := range s.rights() {
		conn.Send(r.name, r.args(s.cfg.Sample)...)
	}
}

// receiveRights reads the replies to sendRights. It returns a refusal that names the missing rights, or
// nil, and an error if the connection has ended. The sample key stands for the keys of locks, unless
// the user may not even set it: then the user's keys have another prefix, and only the commands count.
func (s *supervisor) receiveRights(ctx context.Context, conn redis.Conn) (missing, err error) {
	var names []string
	representative := true
	for _, r := range s.rights() {
		_, err := redisconn.Receive(ctx, conn)
		if err != nil && conn.Err() != nil {
			return nil, err
		}
		command, key := forbids(err)
		if key && r.name == "SET" {
			representative = false
		}
		if command || key && representative {
			names = append(names, r.name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	return &refusal{"its user may not run " + strings.Join(names, ", ") + ", which every lock needs (redlock doctor --acl prints the rights)"}, nil
}

// forbids reports whether err forbids a command for all keys, or for its key.
func forbids(err error) (command, key bool) {
	if err == nil {
		return false, false
	}
	text := err.Error()
	if strings.HasPrefix(text, "NOPERM") {
		key = strings.Contains(text, " key")
		return !key, key
	}
	return strings.Contains(text, "unknown command"), false
}
