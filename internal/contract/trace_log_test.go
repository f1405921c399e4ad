package contract_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestLogTraceLogsEachEvent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := connected(t, ms, &redlock.Options{Trace: redlock.LogTrace(log), LockOptions: redlock.LockOptions{TTL: time.Second, Fencing: true}})
		l := c.Locker("a")
		l.Lock()
		time.Sleep(time.Second)
		in := make(chan struct{})
		go func() {
			l.Lock()
			close(in)
		}()
		synctest.Wait()
		l.Unlock()
		<-in
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		time.Sleep(time.Second)
		l.Unlock()
		ms.Master(0).Stop()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, want := range []string{
			`level=DEBUG msg="redlock: lock: start" name=a`,
			`msg="redlock: attempt" name=a elapsed=`,
			`msg="redlock: acquired" name=a waited=0s until=`,
			`msg="redlock: lock: done" name=a waited=0s attempts=1`,
			`msg="redlock: renewed" name=a elapsed=`,
			`msg="redlock: released" name=a held=1s`,
			`level=WARN msg="redlock: lost" name=a held=`,
			`msg="redlock: master changed" master="master 1" state=down err=`,
		} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, b.String())
			}
		}
		if !strings.Contains(b.String(), " fence=") || strings.Contains(b.String(), "err=\"\"") {
			t.Errorf("the log lacks a fence, or has an empty error:\n%s", b.String())
		}
	})
}
