package master

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// A loading is the scripts that a new connection has the server load. They are 75 KB, so a server that has them is not sent them again:
// otherwise they would be most of what a crowd of clients sends when it connects.
//
// The scripts that the server lacks go ahead of the first inspection. In that flush it is also asked whether it has the text of batch.lua
// for its process. If not, the second inspection is preceded by this text: the first client of a process inspects it twice. So no load
// takes a round trip of its own, and each is on the connection ahead of an inspection that says which process this is.
type loading struct {
	lacks []string  // scripts to load
	own   *wire.Own // the text for the process; nil: there is none
	asked bool      // the server was asked whether it has own
	has   bool      // it has
}

// send sends what is due, ahead of an inspection.
func (l *loading) send(conn redis.Conn) {
	for _, script := range l.lacks {
		conn.Send("SCRIPT", "LOAD", script)
	}
	switch {
	case l.own == nil || l.has:
	case l.asked:
		conn.Send("SCRIPT", "LOAD", l.own.Text)
	default:
		conn.Send("SCRIPT", l.own.Exists()...)
	}
}

// receive reads the replies to what send has sent. Without its own text, a process can be used.
func (l *loading) receive(ctx context.Context, conn redis.Conn) (failed error) {
	for range l.lacks {
		if _, err := redis.String(redisconn.Receive(ctx, conn)); err != nil && failed == nil {
			failed = fmt.Errorf("SCRIPT LOAD: %w", err)
		}
	}
	l.lacks = nil
	if l.own == nil || l.has {
		return failed
	}
	reply, err := redisconn.Receive(ctx, conn)
	if err != nil && conn.Err() != nil {
		return fmt.Errorf("SCRIPT: %w", err)
	}
	if l.asked {
		l.has = err == nil
	} else if there, err := redis.Ints(reply, err); err == nil {
		l.has = len(there) == 1 && there[0] == 1
	}
	l.asked = true
	return failed
}

// load loads scripts without an inspection.
func (l *loading) load(ctx context.Context, conn redis.Conn) error {
	l.send(conn)
	if err := conn.Flush(); err != nil {
		return err
	}
	return l.receive(ctx, conn)
}

// had returns the text for the process, or nil if the server does not have it.
func (l *loading) had() *wire.Own {
	if l.has {
		return l.own
	}
	return nil
}
