package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/wire"
)

// wantPrintable fails t unless err contains the text of the server, and is printable.
func wantPrintable(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsFunc(err.Error(), unicode.IsControl) || len(err.Error()) > 700 {
		t.Errorf("%s: %.200q, want it to say %q and to be printable", what, fmt.Sprint(err), want)
	}
}

// Wherever a server puts text, errors with that text must be printable.
func TestErrorsContainNoControlCharactersOfAServer(t *testing.T) {
	const evil = "-ERR \x1b[31mevil\x07\r\n"
	long := "-ERR \x1b[31mevil " + strings.Repeat("x", 10_000) + "\r\n"
	for _, row := range []struct {
		name   string
		handle func(conn int, cmd []string) string
		want   string
		told   func(t *testing.T, m *Master) error
	}{
		{"to a SET", func(_ int, cmd []string) string {
			if cmd[0] == "SET" {
				return long
			}
			return ok(0, cmd)
		}, "ERR ?[31mevil", func(t *testing.T, m *Master) error { return askOne(t, m, wire.Set).Err }},
		{"to a script", func(_ int, cmd []string) string {
			if cmd[0] == "EVALSHA" {
				return evil
			}
			return ok(0, cmd)
		}, "ERR ?[31mevil?", func(t *testing.T, m *Master) error { return askOne(t, m, wire.Renew).Err }},
		{"to a member of a batch", func(_ int, cmd []string) string {
			if cmd[0] == "EVALSHA" {
				return "*2\r\n" + evil + ":1\r\n"
			}
			return ok(0, cmd)
		}, "ERR ?[31mevil?", func(t *testing.T, m *Master) error {
			var got answers
			m.mu.Lock()
			m.outbox.push(newItem(wire.Renew, claimOf("a"), &got))
			m.outbox.push(newItem(wire.Renew, claimOf("b"), nil))
			m.mu.Unlock()
			synctest.Wait()
			return got.get()[0].Err
		}},
		{"on connecting", func(_ int, cmd []string) string { return long }, "SCRIPT LOAD: ERR ?[31mevil", status},
		{"instead of a reply", func(_ int, cmd []string) string {
			if cmd[0] == "PING" {
				return "\x1b[31mevil\r\n"
			}
			return ok(0, cmd)
		}, "connection lost", func(t *testing.T, m *Master) error {
			askOne(t, m, wire.Ping)
			return status(t, m)
		}},
		{"as its policy", func(_ int, cmd []string) string {
			if cmd[0] == "INFO" {
				return bulkOf("maxmemory:1\r\nmaxmemory_policy:\x1b[31mevil\a" + strings.Repeat("x", 10_000) + "\r\n")
			}
			return ok(0, cmd)
		}, "its maxmemory-policy, ?[31mevil?", status},
	} {
		t.Run(row.name, func(t *testing.T) {
			run(t, row.handle, func(t *testing.T, m *Master, _ *fake) {
				wantPrintable(t, row.name, row.told(t, m), row.want)
			})
		})
	}
}

func bulkOf(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func status(t *testing.T, m *Master) error { return m.Status().Err }

// askOne asks for one command and returns its answer.
func askOne(t *testing.T, m *Master, kind wire.Kind) wire.Answer {
	t.Helper()
	var got answers
	var claim *SentClaim
	if kind != wire.Ping {
		claim = claimOf("a")
	}
	if err := m.Ask(kind, claim, &got); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	all := got.get()
	if len(all) != 1 {
		t.Fatalf("answered %v, want once", all)
	}
	return all[0]
}

// The errors of a caller's dial function, of AUTH for example, and of SUBSCRIBE.
func TestErrorsOfDiallingAndListeningContainNoControlCharacters(t *testing.T) {
	cause := errors.New("\x1b[31mevil")
	bubbletest.Test(t, func(t *testing.T) {
		start := func(dial func(context.Context) (redis.Conn, error)) *Master {
			m := Start(Config{
				Pool: &redis.Pool{DialContext: dial}, ID: "me", Servers: alone(0),
				NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
				Listener: client{every: time.Second},
			})
			time.Sleep(10 * time.Second)
			return m
		}
		for _, err := range []error{cause, redis.Error("WRONGPASS \x1b[31mevil")} {
			m := start(func(context.Context) (redis.Conn, error) { return nil, err })
			wantPrintable(t, "dialling", m.Status().Err, "?[31mevil")
			if err == cause && !errors.Is(m.Status().Err, cause) {
				t.Errorf("the status %v does not wrap the dial's error", m.Status().Err)
			}
			m.Close()
			<-m.Done()
		}
		for reply, want := range map[string]string{"-NOPERM \x1b[31mevil\r\n": "SUBSCRIBE: NOPERM ?[31mevil", hangUp: "?[31mevil"} {
			var refused atomic.Bool // dialling fails from then on
			server := &fake{Handle: func(conn int, cmd []string) string {
				if cmd[0] == "SUBSCRIBE" {
					time.Sleep(100 * time.Millisecond) // by then the other connection is made
					refused.Store(reply == hangUp)
					return reply
				}
				return ok(conn, cmd)
			}}
			dial := server.Pool().DialContext
			m := start(func(ctx context.Context) (redis.Conn, error) {
				if refused.Load() {
					return nil, cause
				}
				return dial(ctx)
			})
			if m.Status().State != Up {
				t.Fatalf("the master is %v: %v", m.Status().State, m.Status().Err)
			}
			wantPrintable(t, "listening", m.Status().WakeErr, want)
			m.Close()
			<-m.Done()
		}
		time.Sleep(2 * time.Hour)
	})
}
