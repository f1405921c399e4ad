// Package fakeserver is a Redis server whose replies a test determines. Tests use it for replies that are
// late, wrong or hostile. Package redlocktest has servers that behave like Redis.
package fakeserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// Handle may return these words instead of a reply.
const (
	Silence = "silence" // no reply
	HangUp  = "close"   // the server closes the connection
	Stall   = "stall"   // the server reads nothing for an hour, and then closes the connection
)

// A Server answers every command with what Handle returns.
type Server struct {
	// Handle returns the reply to a command as it is sent over the network. Connections are counted from 1.
	// Calls for one connection are sequential.
	Handle func(conn int, cmd []string) string
	// Closed is called when a connection has ended. It may be nil.
	Closed func(conn int)

	mu    sync.Mutex // guards the fields below
	conns int
	log   []string // "connection: command"
}

// Pool returns a pool of connections to the server. They are pipes, so they work in a bubble. What the server
// does not read, the client cannot write. Replies are bounded like those of redlock.Open.
func (s *Server) Pool() *redis.Pool {
	return &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		client, server := net.Pipe()
		go s.serve(s.next(), server)
		return redis.NewConn(redisconn.Bounded(client), 0, 0), nil
	}}
}

// ListenTB starts to listen on a free loopback port, until the test of tb ends. It returns the address.
func (s *Server) ListenTB(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(s.next(), conn)
		}
	}()
	return l.Addr().String()
}

// Connections returns how many connections were made.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Seen returns the commands that contain word, in the order of arrival. Each is written as "connection:
// command".
func (s *Server) Seen(word string) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.log {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

// next returns the number of a new connection.
func (s *Server) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns++
	return s.conns
}

func (s *Server) serve(n int, conn net.Conn) {
	if s.Closed != nil {
		defer s.Closed(n)
	}
	defer conn.Close()
	// Another goroutine writes the replies, so that a client that does not read can still write. Two that
	// both write would wait for each other on a mutex of the pipe, and no time passes in a bubble meanwhile.
	replies := make(chan string, 1<<10)
	defer close(replies)
	go func() {
		w := bufio.NewWriter(conn) // converting a large reply to bytes would take memory
		for r := range replies {
			w.WriteString(r)
			if w.Flush() != nil {
				conn.Close()
			}
		}
	}()
	for r := bufio.NewReader(conn); ; {
		cmd, err := readCommand(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.log = append(s.log, fmt.Sprintf("%d: %s", n, strings.Join(cmd, " ")))
		s.mu.Unlock()
		switch reply := s.Handle(n, cmd); reply {
		case HangUp:
			return
		case Stall:
			time.Sleep(time.Hour)
			return
		case Silence:
		default:
			replies <- reply
		}
	}
}

// readCommand reads a command in the form in which clients send it.
func readCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	cmd := make([]string, n)
	for i := range cmd {
		size, err := number()
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		cmd[i] = string(arg[:size])
	}
	return cmd, nil
}

// Bulk returns a string as a reply.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// Encode returns a reply that redigo has decoded as it was sent over the network.
func Encode(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "$-1\r\n"
	case string:
		return "+" + r + "\r\n"
	case []byte:
		return Bulk(string(r))
	case int64:
		return fmt.Sprintf(":%d\r\n", r)
	case redis.Error:
		return "-" + string(r) + "\r\n"
	case []any:
		text := fmt.Sprintf("*%d\r\n", len(r))
		for _, part := range r {
			text += Encode(part)
		}
		return text
	}
	panic(fmt.Sprintf("fakeserver: a reply of type %T", reply))
}
