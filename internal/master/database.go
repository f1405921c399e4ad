package master

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// A pool's connections keep the database that their last user selected. If the pool is shared with code
// that uses SELECT, a borrowed connection may have any database. Locks belong in the database that a new
// connection of the pool has.

// selectHome makes a borrowed connection use the database of new connections, and returns that
// database. selected is the database of the connection now. If the server does not tell, as before
// Redis 6.2, selectHome does nothing.
func (s *supervisor) selectHome(ctx context.Context, conn redis.Conn, selected string) (string, error) {
	if selected == incarnation.Unknown {
		return selected, nil
	}
	if s.home == "" {
		home := selected
		if s.shared || !s.Connecting() { // since the first dial has failed, others may have used the pool
			fresh, err := databaseOfNew(ctx, s.cfg.Pool)
			if err != nil {
				return "", err
			} else if fresh != incarnation.Unknown {
				home = fresh
			}
		}
		s.home = home
	}
	if selected == s.home {
		return selected, nil
	}
	if _, err := redisconn.Do(ctx, conn, "SELECT", s.home); err != nil {
		if conn.Err() != nil {
			return "", err
		}
		return "", fmt.Errorf("a connection of the pool has database %s instead of %s, and it cannot be changed: %w", selected, s.home, err)
	}
	return s.home, nil
}

// databaseOfNew returns the database that a new connection of the pool has.
func databaseOfNew(ctx context.Context, pool *redis.Pool) (string, error) {
	conn, err := dialNew(ctx, pool)
	if err != nil {
		return "", err
	}
	if err := redisconn.Check(conn); err != nil {
		return "", err
	}
	defer redisconn.Discard(conn)
	info, err := redis.String(redisconn.Do(ctx, conn, "CLIENT", "INFO"))
	if err != nil {
		return "", fmt.Errorf("CLIENT INFO: %w", err)
	}
	return incarnation.DatabaseOf(info), nil
}

func dialNew(ctx context.Context, pool *redis.Pool) (redis.Conn, error) {
	if pool.DialContext != nil {
		return pool.DialContext(ctx)
	}
	return pool.Dial()
}
