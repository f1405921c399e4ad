package redisserver

import (
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// Adopt declares that no client holds a lock on the server, so that its votes count at once: see package
// incarnation. After a restart the server must be adopted again.
func (s *Server) Adopt() error {
	conn, err := s.dial()
	if err != nil {
		return fmt.Errorf("redisserver: adopt: %w", err)
	}
	defer conn.Close()
	if _, err := incarnation.Adopt(conn, 0, 0); err != nil {
		return fmt.Errorf("redisserver: adopt: %w", err)
	}
	return nil
}

// dial returns a connection to the server. Each step has a time limit.
func (s *Server) dial() (redis.Conn, error) {
	return redis.Dial("tcp", s.Addr(),
		redis.DialConnectTimeout(adminTimeout),
		redis.DialReadTimeout(adminTimeout),
		redis.DialWriteTimeout(adminTimeout),
		redis.DialPassword(s.auth),
	)
}
