// Package remedy says what is wrong with a master, and what can be done about it. The library and the command use it, so
// both say the same.
package remedy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// Explain returns what an error of a master says is wrong, and what a user can do about that. Each is one printable line. The remedy is
// empty if none is known. err is an error of connecting to a master, or an error reply.
func Explain(err error) (cause, remedy string) {
	if known := (*explained)(nil); errors.As(err, &known) {
		return known.cause, known.remedy
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return ofReply(err, string(reply))
	}
	for _, of := range []func(error) (string, string){ofProtocol, ofTLS, ofNetwork} {
		if cause, remedy = of(err); cause != "" {
			return redisconn.ServerText(cause), remedy
		}
	}
	return redisconn.ServerText(err.Error()), ""
}

// With returns err with the text that Explain returns. The result wraps err. It is err itself if there is no remedy.
func With(err error) error {
	if err == nil || errors.As(err, new(*explained)) {
		return err
	}
	cause, remedy := Explain(err)
	if remedy == "" {
		return err
	}
	return &explained{cause, remedy, err}
}

// An explained is an error with its explanation.
type explained struct {
	cause, remedy string
	err           error
}

func (e *explained) Error() string { return e.cause + " (" + e.remedy + ")" }
func (e *explained) Unwrap() error { return e.err }

// A LateError says that a master did not answer in time, while it was connected to or examined. It matches no error of a context: callers
// of the library must not take it for the end of their own contexts.
type LateError struct {
	Within time.Duration // how long was waited
}

func (e *LateError) Error() string { return fmt.Sprintf("no answer within %v", e.Within) }

// replies are the error replies that say what is wrong with a connection or a server, by how they begin. An empty cause stands for the
// server's own text.
var replies = []struct{ begins, cause, remedy string }{
	{"NOAUTH", "NOAUTH Authentication required", "use a URL with the password, such as redis://user:password@host:port or redis://:password@host:port"},
	{"WRONGPASS", "", wrongPassword},
	{"ERR invalid password", "", wrongPassword},
	{"ERR AUTH <password> called without any password", "ERR AUTH was called without any password configured", noPassword},
	{"ERR Client sent AUTH, but no password is set", "", noPassword},
	{"DENIED", "DENIED: it is in protected mode, and accepts connections from its own machine only", "set a password on the server, requirepass, and use it in the URL"},
	{"ERR max number of clients", "", "raise maxclients of the server, or close connections of other programs"},
	{"LOADING", "", "wait until it has read its data"},
	{"BUSY", "", "wait until the script ends, or send SCRIPT KILL"},
	{"OOM", "OOM: its memory is full, so it refuses writes", "raise maxmemory, or delete other keys"},
	{"MISCONF", "MISCONF: it cannot save its data on its disk, so it refuses writes", "see its log, and free or repair the disk; after an error of RDB, BGSAVE must succeed once"},
	{"NOREPLICAS", "NOREPLICAS: it has too few replicas, so it refuses writes", "connect its replicas, or lower min-replicas-to-write"},
	{"READONLY", "", "it is a replica: use the addresses of independent masters"},
	{"MASTERDOWN", "", "it is a replica: use the addresses of independent masters"},
	{"ERR DB index is out of range", "", wrongDatabase},
	{"ERR invalid DB index", "", wrongDatabase},
	{"ERR SELECT is not allowed in cluster mode", "", "it is part of a cluster: a lock's masters must be independent of each other"},
	{"NOPERM", "", "redlock doctor --acl prints the rights that clients need"},
}

const (
	wrongPassword = "the user or the password in the URL is wrong"
	noPassword    = "use a URL without a password, or set requirepass on the server"
	wrongDatabase = "the database in the URL must be below the server's number of databases, which is 16 by default"
)

// ofReply explains an error reply, which err wraps.
func ofReply(err error, reply string) (cause, remedy string) {
	for _, r := range replies {
		if strings.HasPrefix(reply, r.begins) {
			if cause = r.cause; cause == "" {
				cause = strings.TrimSuffix(redisconn.ServerText(err.Error()), ".")
			}
			return cause, r.remedy
		}
	}
	return redisconn.ServerText(err.Error()), ""
}

// Ends reports whether an error reply to the first command of a connection says that the server will refuse the others, too, whatever they
// are. They are not sent then: the reply to a long one would be another, or none.
func Ends(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	for _, begins := range []string{"NOAUTH", "DENIED", "ERR max number of clients", "LOADING", "BUSY ", "MASTERDOWN"} {
		if strings.HasPrefix(string(reply), begins) {
			return true
		}
	}
	return false
}

// ofProtocol explains that a server speaks another protocol.
func ofProtocol(err error) (cause, remedy string) {
	foreign := (*redisconn.ForeignError)(nil)
	switch {
	case errors.Is(err, masterurl.ErrNoTLS), errors.As(err, new(tls.RecordHeaderError)):
		return "it does not speak TLS", "use redis://, or the server's port for TLS"
	case errors.Is(err, masterurl.ErrOnlyTLS), errors.As(err, &foreign) && foreign.TLS():
		return "it speaks TLS only", "use rediss://"
	case foreign != nil:
		return foreign.Error(), "is this the port of a Redis server?"
	case strings.Contains(err.Error(), "redigo: "):
		return "it does not speak the Redis protocol", "is this the port of a Redis server, and without TLS?"
	}
	return "", ""
}

// ofTLS explains a failure of TLS.
func ofTLS(err error) (cause, remedy string) {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	text := err.Error()
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is signed by an unknown authority", "trust the authority: Options.TLSConfig, --ca FILE, or SSL_CERT_FILE"
	case errors.As(err, &host):
		return "its certificate is for another host: " + host.Error(), "use a host of the certificate in the URL, or Options.TLSConfig with its ServerName"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate is not valid now: " + invalid.Error(), "renew the certificate, or correct this machine's clock"
	case strings.Contains(text, "tls: certificate required"), strings.Contains(text, "tls: bad certificate"):
		return "it wants a client's certificate", "use Options.TLSConfig, or --cert FILE and --key FILE"
	case strings.Contains(text, "remote error: tls: unknown certificate authority"):
		return "it does not trust the client's certificate", "use a certificate of an authority that the server trusts"
	case strings.Contains(text, "remote error: tls: expired certificate"):
		return "the client's certificate has expired", "renew it"
	}
	return "", ""
}

// IsTLS reports whether err is a failure of TLS, not of the network. Most errors of package tls have no type.
func IsTLS(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		text := err.Error()
		if strings.Contains(text, "tls: ") || strings.HasPrefix(text, "TLS handshake: ") || err == masterurl.ErrOnlyTLS {
			return true
		}
	}
	return false
}

// ofNetwork explains a failure to connect.
func ofNetwork(err error) (cause, remedy string) {
	var op *net.OpError
	var name *net.DNSError
	late := (*LateError)(nil)
	socket := errors.As(err, &op) && op.Net == "unix"
	switch {
	case errors.As(err, &late):
		return err.Error(), "is the server up, and does a firewall let connections through?"
	case errors.As(err, &name) && name.IsNotFound:
		return name.Err, "check the host in the URL"
	case name != nil:
		return name.Err, "the name server does not answer: check the network"
	case errors.Is(err, syscall.ECONNREFUSED) && socket:
		return "connection refused", "no server listens at this socket"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", "no server listens at this address"
	case errors.Is(err, syscall.ENOENT) && socket:
		return "there is no such socket", "check the path, and unixsocket of the server"
	case errors.Is(err, syscall.EACCES) && socket:
		return "permission denied", "unixsocketperm of the server must let this user write"
	case errors.Is(err, syscall.EHOSTUNREACH):
		return "no route to host", "check the address and the network"
	case errors.Is(err, syscall.ENETUNREACH):
		return "network is unreachable", "check the address and the network"
	case errors.Is(err, syscall.EMFILE):
		return "too many open files", "raise this process's limit of open files"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it closed the connection", "is this the port of a Redis server? If it expects TLS, use rediss://"
	case op != nil && op.Err != nil:
		return op.Err.Error(), "" // without the address: the master is named by it
	}
	return "", ""
}
