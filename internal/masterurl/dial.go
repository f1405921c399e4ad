package masterurl

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// Dial connects to the master, logs in and selects the database, before ctx ends. See Connect for config.
func (u URL) Dial(ctx context.Context, config *tls.Config, options ...redis.DialOption) (redis.Conn, error) {
	conn, err := redis.DialContext(ctx, u.network, u.address, append(options,
		redis.DialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return u.Connect(ctx, config) }),
		redis.DialUsername(u.username),
		redis.DialPassword(u.password),
		redis.DialDatabase(u.db),
	)...)
	return conn, u.hidePassword(err)
}

// Connect connects to the master, with TLS for a rediss URL, before ctx ends. It does not log in. For TLS it
// uses a copy of config, in which an empty ServerName is set from the URL. A nil config trusts the roots of
// the system. The connection limits the size of replies: see redisconn.Bounded.
func (u URL) Connect(ctx context.Context, config *tls.Config) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, u.network, u.address)
	if err != nil {
		return nil, err
	}
	if !u.tls {
		return redisconn.Bounded(conn), nil
	}
	// Redigo's own handshake ignores ctx.
	secure := tls.Client(conn, u.tlsConfig(config))
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &HandshakeError{err}
	}
	return redisconn.Bounded(secure), nil
}

// A HandshakeError says that the connection to a server succeeded, but the TLS handshake failed.
type HandshakeError struct {
	Err error // why
}

func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

func (e *HandshakeError) Unwrap() error { return e.Err }

// At returns a redis URL of another address, with the credentials and the database of u. The result contains
// the password.
func (u URL) At(address string) string {
	at := url.URL{Scheme: "redis", Host: address, Path: "/" + strconv.Itoa(u.db)}
	if u.password != "" {
		at.User = url.UserPassword(u.username, u.password)
	}
	return at.String()
}

func (u URL) tlsConfig(config *tls.Config) *tls.Config {
	if config == nil {
		config = &tls.Config{}
	} else {
		config = config.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(u.address)
	}
	return config
}

// hidePassword returns err without the password. A server without the AUTH command repeats its arguments:
// "ERR unknown command 'AUTH', with args beginning with: 'password'". Redis cuts long arguments, so a part of
// the password must not be shown either.
func (u URL) hidePassword(err error) error {
	var reply redis.Error
	if u.password == "" || !errors.As(err, &reply) {
		return err
	}
	text, _, _ := strings.Cut(string(reply), ", with args beginning with")
	return redis.Error(strings.ReplaceAll(text, u.password, "***"))
}
