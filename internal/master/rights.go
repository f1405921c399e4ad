package master

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// A user may have the right to set a lock's key, and lack the right to renew or delete it. Then a lock
// could be acquired, and would be lost at its first renewal. So the rights are tried on connecting, in
// the same flush as the other questions.

// rights returns the commands that every lock needs: see wire.Rights. Without a sample key it returns nothing.
func (s *supervisor) rights() (tries wire.Query) {
	sample := s.cfg.Sample
	if sample == "" {
		return nil
	}
	tries = wire.Rights(sample)
	if s.guarded() {
		tries = append(tries, []any{"PTTL", incarnation.Key})
	}
	return tries
}

// slotRights returns the commands without which a permit could be acquired whose release fails: see wire.SlotRights.
func (s *supervisor) slotRights() wire.Query {
	if s.cfg.Sample == "" {
		return nil
	}
	return wire.SlotRights(s.cfg.Sample)
}

// receiveRights reads the replies to rights and slotRights. It returns refusals that name the missing rights, for all locks and for
// semaphores, or nil, and an error if the connection has ended. The sample key stands for the keys of locks, unless
// the user may not even set it: then the user's keys have another prefix, and only the commands count. The first reply is that to a trial.
func (s *supervisor) receiveRights(ctx context.Context, conn redis.Conn, p *peer) (missing, noSlots, err error) {
	representative := true
	lacking := func(tries wire.Query, who string) (refusal, err error) {
		var names []string
		for _, r := range tries {
			_, err := redisconn.Receive(ctx, conn)
			if err != nil && conn.Err() != nil {
				return nil, err
			}
			name := r[0].(string)
			if name == "PUBSUB" {
				name += " NUMSUB"
			}
			if name == "SET" {
				p.trial = err
			}
			command, key := forbids(err)
			if key && name == "SET" {
				representative = false
			}
			if command || key && representative {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return nil, nil
		}
		return &wire.Refusal{Reason: "its user may not run " + strings.Join(names, ", ") + ", which every " + who + " needs (redlock doctor --acl prints the rights)"}, nil
	}
	if missing, err = lacking(s.rights(), "lock"); err != nil {
		return nil, nil, err
	}
	noSlots, err = lacking(s.slotRights(), "semaphore")
	return missing, noSlots, err
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
