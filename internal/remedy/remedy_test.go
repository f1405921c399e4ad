package remedy_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
)

func dialError(network string, errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", errno)}
}

func TestEveryFirstMistakeHasACauseAndARemedy(t *testing.T) {
	for _, row := range []struct {
		name  string
		err   error
		cause string // what it begins with
	}{
		{"no password", redis.Error("NOAUTH Authentication required."), "NOAUTH Authentication required"},
		{"no password, in a script", fmt.Errorf("SCRIPT LOAD: %w", redis.Error("NOAUTH Authentication required.")), "NOAUTH Authentication required"},
		{"a wrong password", redis.Error("WRONGPASS invalid username-password pair or user is disabled."), "WRONGPASS invalid username-password pair or user is disabled"},
		{"a wrong password of an old server", redis.Error("ERR invalid password"), "ERR invalid password"},
		{"a password too many", redis.Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"), "ERR AUTH was called without"},
		{"protected mode", redis.Error("DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode..."), "DENIED: it is in protected mode"},
		{"no connection left", redis.Error("ERR max number of clients reached"), "ERR max number of clients reached"},
		{"loading", redis.Error("LOADING Redis is loading the dataset in memory"), "LOADING Redis is loading"},
		{"a wrong database", redis.Error("ERR DB index is out of range"), "ERR DB index"},
		{"no rights", fmt.Errorf("SCRIPT LOAD: %w", redis.Error("NOPERM this user has no permissions to run the 'script|load' command")), "SCRIPT LOAD: NOPERM this user"},
		{"a cluster with a database", redis.Error("ERR SELECT is not allowed in cluster mode"), "ERR SELECT"},
		{"another protocol", &redisconn.ForeignError{Line: "HTTP/1.1 400 Bad Request"}, `it does not speak the Redis protocol: it answers "HTTP/1.1 400 Bad Request"`},
		{"another protocol, by a connection of the caller", errors.New("redigo: unexpected response line (possible server error or unsupported concurrent read by application)"), "it does not speak the Redis protocol"},
		{"TLS asked of a plain server", masterurl.ErrNoTLS, "it does not speak TLS"},
		{"plain text sent to a TLS server", masterurl.ErrOnlyTLS, "it speaks TLS only"},
		{"an alert of a TLS server", &redisconn.ForeignError{Line: "\x15\x03\x03\x00\x02\x02F"}, "it speaks TLS only"},
		{"an unknown authority", fmt.Errorf("TLS handshake: %w", x509.UnknownAuthorityError{}), "its certificate is signed by an unknown authority"},
		{"another host's certificate", fmt.Errorf("TLS handshake: %w", x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a"}}, Host: "b"}), "its certificate is for another host: "},
		{"an old certificate", fmt.Errorf("TLS handshake: %w", x509.CertificateInvalidError{Reason: x509.Expired}), "its certificate is not valid now: "},
		{"no client's certificate", errors.New("remote error: tls: certificate required"), "it wants a client's certificate"},
		{"nobody listens", dialError("tcp", syscall.ECONNREFUSED), "connection refused"},
		{"a path that is no socket", dialError("unix", syscall.ECONNREFUSED), "connection refused"},
		{"a path that is not there", dialError("unix", syscall.ENOENT), "there is no such socket"},
		{"a socket of another user", dialError("unix", syscall.EACCES), "permission denied"},
		{"an unknown host", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}}, "no such host"},
		{"a name server that is down", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "h"}}, "server misbehaving"},
		{"no route", dialError("tcp", syscall.EHOSTUNREACH), "no route to host"},
		{"no answer", &remedy.LateError{Within: time.Second}, "no answer within 1s"},
		{"an end", fmt.Errorf("read: %w", io.EOF), "it closed the connection"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cause, advice := remedy.Explain(row.err)
			if len(cause) < len(row.cause) || cause[:len(row.cause)] != row.cause || advice == "" {
				t.Errorf("Explain(%q) = %q, %q, want the cause %q and a remedy", row.err, cause, advice, row.cause)
			}
			said := remedy.With(row.err)
			if said.Error() != cause+" ("+advice+")" || !errors.Is(said, row.err) || remedy.With(said) != said {
				t.Errorf("With(%q) = %q, want %q, which wraps it and remains as it is", row.err, said, cause+" ("+advice+")")
			}
			if again, _ := remedy.Explain(fmt.Errorf("x: %w", said)); again != cause {
				t.Errorf("Explain of what With returned = %q, want %q", again, cause)
			}
		})
	}
}

func TestAnErrorWithoutARemedyStaysAsItIs(t *testing.T) {
	for _, err := range []error{errors.New("one"), redis.Error("ERR what"), &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route")}, nil} {
		if got := remedy.With(err); got != err {
			t.Errorf("With(%v) = %v, want the same", err, got)
		}
	}
	if cause, _ := remedy.Explain(errors.New("two\r\nlines")); cause != "two lines" {
		t.Errorf("Explain = %q, want one line", cause)
	}
}

func TestALateErrorIsNoErrorOfAContext(t *testing.T) {
	if err := remedy.With(&remedy.LateError{Within: time.Second}); errors.Is(err, context.DeadlineExceeded) || redisconn.IsTimeout(err) {
		t.Errorf("%v is the end of a context", err)
	}
}

func TestOnlyRepliesThatRefuseEverythingEndAConnection(t *testing.T) {
	for text, want := range map[string]bool{
		"NOAUTH Authentication required.": true, "DENIED Redis is": true, "ERR max number of clients reached": true, "LOADING Redis": true,
		"NOPERM this user": false, "ERR unknown command": false, "NOSCRIPT No matching script": false, "BUSYGROUP x": false, "BUSY Redis is busy": true,
	} {
		if got := remedy.Ends(fmt.Errorf("x: %w", redis.Error(text))); got != want {
			t.Errorf("Ends(%q) = %t, want %t", text, got, want)
		}
	}
	if remedy.Ends(io.EOF) || remedy.Ends(nil) {
		t.Error("Ends is true for what is no reply")
	}
}
