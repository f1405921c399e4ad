package masterurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

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
//
// If one side speaks TLS and the other does not, the error is ErrNoTLS, or that of the first Read is ErrOnlyTLS, as far as this can be
// told.
func (u URL) Connect(ctx context.Context, config *tls.Config) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, u.network, u.address)
	if err != nil {
		return nil, err
	}
	if !u.tls {
		bounded := redisconn.Bounded(conn)
		bounded.Unanswered = func(err error) error {
			if u.network == "tcp" && u.speaksTLS(ctx) {
				return ErrOnlyTLS
			}
			return err
		}
		return bounded, nil
	}
	secure := tls.Client(redisconn.Direct(conn), u.tlsConfig(config))
	if err := u.handshake(ctx, secure); err != nil {
		conn.Close()
		return nil, err
	}
	return redisconn.Bounded(secure), nil
}

// handshakePatience is how long a handshake may take before it is found out whether the server speaks TLS at all.
const handshakePatience = 500 * time.Millisecond

// handshake shakes hands before ctx ends: redigo's own handshake ignores ctx. If that takes long, another connection finds out whether the server
// speaks TLS at all. Redis without TLS does not answer the beginning of a handshake: it waits for the end of a line.
func (u URL) handshake(ctx context.Context, secure *tls.Conn) error {
	patience := min(handshakePatience, timeLeft(ctx)/2)
	ctx, end := context.WithCancelCause(ctx)
	var trial sync.WaitGroup
	trial.Add(1)
	begins := time.AfterFunc(patience, func() {
		defer trial.Done()
		if u.speaksPlain(ctx) {
			end(ErrNoTLS)
		}
	})
	err := secure.HandshakeContext(ctx)
	end(nil)
	if begins.Stop() {
		trial.Done()
	}
	trial.Wait()
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == ErrNoTLS:
		return ErrNoTLS
	}
	return fmt.Errorf("TLS handshake: %w", err)
}

// Errors of Connect.
var (
	ErrNoTLS   = errors.New("TLS handshake: the server does not speak TLS")
	ErrOnlyTLS = errors.New("the server speaks TLS only")
)

// leastTrial is for how long, at least, the second connection may take by which Connect finds out why the first one fails. It may take three
// quarters of the time that is left to connect: the handshake with a distant server, or on a machine that is busy, takes longer.
const leastTrial = 250 * time.Millisecond

// speaksPlain reports whether the server answers a command without TLS. No password is sent.
func (u URL) speaksPlain(ctx context.Context) bool {
	return u.try(ctx, timeLeft(ctx)*3/4, func(conn net.Conn) bool {
		first := make([]byte, 1)
		_, err := conn.Write([]byte("PING\r\n"))
		if err == nil {
			_, err = conn.Read(first)
		}
		return err == nil && (first[0] == '+' || first[0] == '-')
	})
}

// speaksTLS reports whether the server shakes hands, or refuses to by an alert. The certificate does not matter: nothing is sent.
func (u URL) speaksTLS(ctx context.Context) bool {
	return u.try(context.WithoutCancel(ctx), timeLeft(ctx)*3/4, func(conn net.Conn) bool {
		config := u.tlsConfig(nil)
		config.InsecureSkipVerify = true
		err := tls.Client(conn, config).Handshake()
		return err == nil || strings.Contains(err.Error(), "remote error: tls: ")
	})
}

// timeLeft returns the time until the deadline of ctx, or a second if it has none.
func timeLeft(ctx context.Context) time.Duration {
	if deadline, has := ctx.Deadline(); has {
		return time.Until(deadline)
	}
	return time.Second
}

// try calls f with another connection to the server, which is closed after limit, or leastTrial if that is longer, or when ctx ends.
func (u URL) try(ctx context.Context, limit time.Duration, f func(net.Conn) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, max(limit, leastTrial))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, u.network, u.address)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return f(conn)
}

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
