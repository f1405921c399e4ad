package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/master"
)

// A target is where a master is and how to log in there.
type target struct {
	network  string // tcp or unix
	address  string // host:port or a path
	tls      bool
	username string
	password string
	db       int
}

// parseTarget reads redis://[user:password@]host[:port][/db],
// rediss:// likewise with TLS, unix://[user:password@]/path[?db=n], and
// host:port. Its errors never repeat what was given, which may hold a password:
// not even net/url's do that for us.
func parseTarget(raw string) (target, error) {
	if !strings.Contains(raw, "://") {
		host, port, err := net.SplitHostPort(raw)
		if err != nil || host == "" || port == "" || strings.ContainsAny(raw, "@/") {
			return target{}, errors.New("neither a URL nor host:port")
		}
		return target{network: "tcp", address: raw}, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, errors.New("not a valid URL")
	}
	if u.Fragment != "" || strings.HasSuffix(raw, "#") {
		// Most likely the rest of a password that was not escaped.
		return target{}, errors.New("a # that is not written %23")
	}
	t := target{network: "tcp", tls: u.Scheme == "rediss"}
	if u.User != nil {
		password, ok := u.User.Password()
		if !ok {
			// redis-cli takes a lone user name for the password, other clients
			// for the user.
			return target{}, errors.New("a user without a password: write :password@ or user:password@")
		}
		t.username, t.password = u.User.Username(), password
	}
	db := strings.Trim(u.Path, "/")
	switch u.Scheme {
	case "redis", "rediss":
		if u.Hostname() == "" {
			return target{}, errors.New("no host")
		}
		port := u.Port()
		if port == "" {
			port = "6379"
		}
		t.address = net.JoinHostPort(u.Hostname(), port)
	case "unix":
		if u.Host != "" || u.Path == "" {
			return target{}, errors.New("a unix URL needs an absolute path, as in unix:///run/redis.sock")
		}
		t.network, t.address, db = "unix", u.Path, ""
	default:
		return target{}, errors.New("unknown scheme, want redis, rediss or unix")
	}
	return t, t.setDB(db, u.Query())
}

// setDB takes the database from the path or from ?db=.
func (t *target) setDB(path string, query url.Values) error {
	db := path
	for key := range query {
		if key != "db" {
			return errors.New("unknown parameter, only db is known")
		}
		if path != "" {
			return errors.New("two databases")
		}
		db = query.Get(key)
	}
	if db == "" {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 31)
	if err != nil {
		return errors.New("the database is not a number")
	}
	t.db = int(n)
	return nil
}

// newPool returns a pool that dials t. It holds the two connections that a
// Client uses; nothing else is ever borrowed from it.
func newPool(t target, opts *Options) *redis.Pool {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: opts.DialTimeout}
		conn, err := d.DialContext(ctx, t.network, t.address)
		if err != nil {
			return nil, err
		}
		if !t.tls {
			return master.Bounded(conn), nil
		}
		// Redigo's own handshake does not heed ctx.
		secure := tls.Client(conn, tlsConfig(t, opts))
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return master.Bounded(secure), nil
	}
	options := []redis.DialOption{
		redis.DialContextFunc(dial),
		redis.DialUsername(t.username),
		redis.DialPassword(t.password),
		redis.DialDatabase(t.db),
	}
	return &redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, t.network, t.address, options...)
		},
		MaxIdle: 2,
	}
}

func tlsConfig(t target, opts *Options) *tls.Config {
	config := &tls.Config{}
	if opts.TLSConfig != nil {
		config = opts.TLSConfig.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(t.address)
	}
	return config
}

// checkPools refuses pools that cannot serve.
func checkPools(pools []*redis.Pool) error {
	seen := make(map[*redis.Pool]int)
	for i, p := range pools {
		switch first, twice := seen[p]; {
		case p == nil:
			return fmt.Errorf("redlock: New: pool %d is nil", i+1)
		case twice:
			return fmt.Errorf("redlock: New: pools %d and %d are the same; each master needs its own", first+1, i+1)
		case p.Dial == nil && p.DialContext == nil:
			return fmt.Errorf("redlock: New: pool %d has neither Dial nor DialContext", i+1)
		case p.MaxActive == 1:
			return fmt.Errorf("redlock: New: pool %d has a MaxActive of 1; a client needs two connections to each master", i+1)
		}
		seen[p] = i
	}
	return nil
}
