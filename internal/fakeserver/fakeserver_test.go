package fakeserver_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/fakeserver"
)

// echo answers with the arguments of the command.
func echo(_ int, cmd []string) string {
	if cmd[0] == "QUIT" {
		return fakeserver.HangUp
	}
	return fakeserver.Bulk(strings.Join(cmd[1:], ","))
}

func TestServerAnswersOnPipesAndSockets(t *testing.T) {
	closed := make(chan int, 1)
	s := &fakeserver.Server{Handle: echo, Closed: func(conn int) { closed <- conn }}
	addr := s.ListenTB(t)
	for i, dial := range []func() (redis.Conn, error){
		func() (redis.Conn, error) { return s.Pool().Get(), nil },
		func() (redis.Conn, error) { return redis.Dial("tcp", addr) },
	} {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := redis.String(conn.Do("ECHO", "a b", "c\r\n", "")); got != "a b,c\r\n," || err != nil {
			t.Errorf("ECHO = %q, %v", got, err)
		}
		if _, err := conn.Do("QUIT"); err == nil {
			t.Error("the connection was not closed")
		}
		if n := <-closed; n != i+1 {
			t.Errorf("connection %d was closed, want %d", n, i+1)
		}
		conn.Close()
	}
	if got := s.Seen("ECHO"); s.Connections() != 2 || len(got) != 2 || got[1] != "2: ECHO a b c\r\n " {
		t.Errorf("%d connections, commands %q", s.Connections(), got)
	}
}

func TestEncodeReversesDecoding(t *testing.T) {
	for _, reply := range []string{
		"$-1\r\n", "+OK\r\n", ":-7\r\n", "$4\r\na\r\nb\r\n", "*0\r\n", "*2\r\n:1\r\n*2\r\n$0\r\n\r\n-ERR no\r\n",
	} {
		s := &fakeserver.Server{Handle: func(int, []string) string { return reply }}
		conn := s.Pool().Get()
		got, err := conn.Do("PING")
		if err != nil || fakeserver.Encode(got) != reply {
			t.Errorf("%q was decoded and encoded to %q, %v", reply, fakeserver.Encode(got), err)
		}
		conn.Close()
	}
}

func TestLiesReplaceRepliesUntilTheListIsUsedUp(t *testing.T) {
	l := fakeserver.NewLies(1, []byte("a\x00\x00b"))
	for i, want := range []string{"true", "a", "true", "b", "true"} {
		if got := l.Replace("true"); got != want {
			t.Errorf("reply %d = %q, want %q", i, got, want)
		}
	}
	l = fakeserver.NewLies(0, []byte("a"))
	l.End()
	if got := l.Replace("true"); got != "true" {
		t.Errorf("the reply after End = %q", got)
	}
}
