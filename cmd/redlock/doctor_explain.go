package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// failureOf returns advice about a master that cannot be examined, if there is some, and why it
// cannot be examined.
func failureOf(err error) (advice string, why error) {
	what, advice := explain(err)
	if errors.As(err, new(redis.Error)) {
		return advice, fmt.Errorf("access denied: %s", what)
	}
	return advice, fmt.Errorf("not reachable: %s", what)
}

// plain returns an error about a master in one short line.
func plain(err error) error {
	what, _ := explain(err)
	return errors.New(what)
}

// explain returns an error about a master in one short line, and advice if there is some.
func explain(err error) (what, advice string) {
	var op *net.OpError
	var name *net.DNSError
	var timeout net.Error
	what = err.Error()
	isTimeout := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
	switch {
	case errors.As(err, new(tls.RecordHeaderError)), isTimeout && errors.As(err, new(*masterurl.HandshakeError)):
		return "it does not speak TLS", "use redis://, or the server's port for TLS"
	case isTimeout:
		what = fmt.Sprintf("no answer within %v", doctorPatience)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", "no server listens at this address"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is signed by an unknown authority", "--ca FILE trusts an authority; the system's file is SSL_CERT_FILE"
	case strings.Contains(what, "tls: certificate required"), strings.Contains(what, "tls: bad certificate"):
		return "it wants a client's certificate", "use --cert FILE and --key FILE"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "it closed the connection", "if the server expects TLS, use rediss://"
	case strings.Contains(what, "redigo: "):
		return "it does not speak the Redis protocol", "is this the port of a Redis server, and without TLS?"
	case strings.HasPrefix(what, "NOAUTH"):
		return "a password is required", "use redis://user:password@host:port"
	case strings.HasPrefix(what, "WRONGPASS"):
		return "WRONGPASS", "the user or the password in the URL is wrong"
	case errors.As(err, &name):
		what = name.Err
	case errors.As(err, &op):
		what = op.Err.Error() // without the address, which is in the table
	}
	return redisconn.ServerText(what), advice
}
