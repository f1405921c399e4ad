package redisconn

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// okConn is a connection on which every reply is OK.
type okConn struct{ redis.ConnWithTimeout }

func (okConn) ReceiveWithTimeout(time.Duration) (any, error) { return "OK", nil }

func TestReceivingAReplyAllocatesNothing(t *testing.T) {
	var conn redis.Conn = okConn{}
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := ReceiveWithin(conn, time.Second); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("ReceiveWithin allocates %v times for each reply", allocs)
	}
}
