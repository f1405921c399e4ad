package guard

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// A loading is the scripts that a new connection has the server load. They are 66 KB, and the texts of batch.lua and slots.lua for the
// process another 104 KB. So a server that has them is not sent them again: otherwise they would be most of what a crowd of clients
// sends when it connects.
//
// The scripts that the server lacks go ahead of the first inspection. In that flush it is also asked whether it has the texts for its
// process. If not, they go ahead of a second inspection. So each load is on the connection ahead of an inspection that says which process this is.
type loading struct {
	lacks []string  // scripts to load
	own   *wire.Own // the texts for the process; nil: there are none
	asked bool      // the server was asked whether it has own; if it does not, lacks has them
	has   bool      // it has all of them
}

// send sends what is due, without a flush.
func (l *loading) send(conn redis.Conn) {
	for _, script := range l.lacks {
		conn.Send("SCRIPT", "LOAD", script)
	}
	if l.own != nil && !l.asked {
		conn.Send("SCRIPT", l.own.Exists()...)
	}
}

// receive reads the replies to what send has sent. Without its own texts, a process can be used.
func (l *loading) receive(ctx context.Context, conn redis.Conn) (failed error) {
	for range l.lacks {
		if _, err := redis.String(redisconn.Receive(ctx, conn)); err != nil && failed == nil {
			failed = fmt.Errorf("SCRIPT LOAD: %w", err)
		}
	}
	l.lacks = nil
	switch {
	case l.own == nil || l.has:
		return failed
	case l.asked: // its own texts were loaded
		if l.has = failed == nil; !l.has {
			l.own = nil
		}
		return conn.Err()
	}
	there, err := redis.Ints(redisconn.Receive(ctx, conn))
	if err != nil && conn.Err() != nil {
		return fmt.Errorf("SCRIPT: %w", err)
	}
	l.asked, l.has = true, err == nil && len(there) == wire.OwnTexts && !slices.Contains(there, 0)
	if !l.has {
		l.lacks = l.own.Texts()
	}
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
