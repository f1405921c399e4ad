package farexpiry_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/farexpiry"
	"github.com/redlock-go/redlock/internal/incarnation"
)

// start returns a miniredis with the hook, as on 32 bits, and a connection to it.
func start(t *testing.T) (*miniredis.Miniredis, redis.Conn) {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	m.Server().SetPreHook(farexpiry.Hook(m.Server()))
	conn, err := redis.Dial("tcp", m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return m, conn
}

func TestTheProbeTellsTheTimeOnMiniredis(t *testing.T) {
	m, conn := start(t)
	found, err := incarnation.Adopt(conn, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	known := incarnation.Know(found)
	incarnation.SendInspection(conn, incarnation.Unknown, known, false, 0)
	conn.Flush()
	if _, err := incarnation.ReadInspection(conn.Receive); err != nil {
		t.Fatal(err)
	}
	probe := func() (time.Time, bool) {
		t.Helper()
		known.Probe(conn, false)
		conn.Flush()
		reply, err := conn.Receive()
		if err != nil {
			t.Fatal(err)
		}
		return known.Probed(reply)
	}
	if now, there := probe(); !there || time.Since(now).Abs() > time.Minute {
		t.Errorf("the probe tells %v, %v, want the time", now, there)
	}
	m.Del(incarnation.Key)
	if _, there := probe(); there {
		t.Error("the probe finds a record that was deleted")
	}
}

func TestALockIsHadOnMiniredis(t *testing.T) {
	m, conn := start(t)
	if _, err := incarnation.Adopt(conn, 0, 1); err != nil {
		t.Fatal(err)
	}
	client, err := redlock.Open([]string{m.Addr()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Locker("stock").Do(ctx, func(ctx context.Context) error { return context.Cause(ctx) }); err != nil {
		t.Error(err)
	}
}
