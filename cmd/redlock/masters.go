package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/urfave/cli/v3"

	redismaster "github.com/redlock-go/redlock/internal/master"
)

// mastersEnv names the variable that stands in for --masters.
const mastersEnv = "REDLOCK_MASTERS"

// mastersFlag returns the flag --masters, the same for every command that has it.
//
// The variable is read by mastersOf and not by the flag itself, so that no help text or
// flag error can ever quote a value that holds passwords.
func mastersFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "masters",
		Usage: "the Redis masters, as comma separated `URLS` (redis://, rediss://, unix://, or host:port); " +
			"default $" + mastersEnv + ", where other users of this machine cannot read passwords",
	}
}

// mastersOf returns what --masters says, else what $REDLOCK_MASTERS says, else nil.
func mastersOf(cmd *cli.Command) ([]master, error) {
	if cmd.IsSet("masters") {
		return parseMasters("--masters", cmd.String("masters"))
	}
	if list := os.Getenv(mastersEnv); strings.TrimSpace(list) != "" {
		return parseMasters("$"+mastersEnv, list)
	}
	return nil, nil
}

// needMasters is mastersOf for commands that do not go without. example is what to write
// behind --masters and its value.
func needMasters(cmd *cli.Command, example string) ([]master, error) {
	masters, err := mastersOf(cmd)
	if err == nil && len(masters) == 0 {
		err = withHint(usageErrorf("%s needs the masters: --masters or $%s", cmd.Name, mastersEnv),
			"redlock "+cmd.Name+" --masters host1:6379,host2:6379,host3:6379"+example)
	}
	return masters, err
}

// A master is one entry of --masters.
type master struct {
	url  string // as given, password included: for redlock.Open and for nothing that is printed
	name string // host:port or the socket's path: what may be printed
	addr string // host:port to dial; empty for a unix socket
	db   int    // the database to select

	parsed *url.URL // nil if given as host:port
}

// String returns the master's name, so that a master printed by mistake tells no password.
func (m master) String() string { return m.name }

// GoString is String, for %#v.
func (m master) GoString() string { return m.name }

// parseMasters parses the value of source, a comma separated list. Its errors name an entry
// by its position alone: net/url's own errors quote the URL or, after an unescaped '#' or
// '/', a piece of the password as "port".
func parseMasters(source, list string) ([]master, error) {
	var masters []master
	entries := strings.Split(list, ",")
	for i, entry := range entries {
		m, err := parseMaster(strings.TrimSpace(entry))
		if err != nil {
			return nil, usageErrorf("master %d of %d in %s %w", i+1, len(entries), source, err)
		}
		if slices.ContainsFunc(masters, func(o master) bool { return o.name == m.name }) {
			return nil, usageErrorf("master %d of %d in %s is there twice: %s", i+1, len(entries), source, m.name)
		}
		masters = append(masters, m)
	}
	return masters, nil
}

var (
	errEmptyMaster  = errors.New("is empty")
	errMasterURL    = errors.New("is not a valid URL (special characters in a password must be percent-encoded)")
	errMasterScheme = errors.New("is no redis://, rediss:// or unix:// URL")
	errMasterHost   = errors.New("names no host")
	errMasterPath   = errors.New("names no socket")
	errMasterPlain  = errors.New("is neither a URL nor host:port")
	errMasterHash   = errors.New("has a # that is not written %23")
	errMasterUser   = errors.New("has a user without a password: write :password@ or user:password@")
	errMasterDB     = errors.New("names a database that is no number, or two")
	errMasterQuery  = errors.New("has a parameter other than ?db=")
)

// parseMaster parses one entry. It refuses what redlock.Open refuses, so that all commands
// agree. Its errors are the fixed ones above: see parseMasters.
func parseMaster(entry string) (master, error) {
	if entry == "" {
		return master{}, errEmptyMaster
	}
	if !strings.Contains(entry, "://") {
		host, port, err := net.SplitHostPort(entry)
		if err != nil || host == "" || port == "" || strings.ContainsAny(entry, "@/") {
			return master{}, errMasterPlain
		}
		return master{url: entry, name: entry, addr: entry}, nil
	}
	u, err := url.Parse(entry)
	if err != nil {
		return master{}, errMasterURL
	}
	if u.Fragment != "" || strings.HasSuffix(entry, "#") {
		return master{}, errMasterHash
	}
	if _, ok := u.User.Password(); u.User != nil && !ok {
		return master{}, errMasterUser
	}
	m := master{url: entry, parsed: u}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || u.Path == "" {
			return master{}, errMasterPath
		}
		m.name = u.Path
	case "redis", "rediss":
		if u.Hostname() == "" {
			return master{}, errMasterHost
		}
		port := u.Port()
		if port == "" {
			port = "6379"
		}
		m.addr = net.JoinHostPort(u.Hostname(), port)
		m.name = m.addr
	default:
		return master{}, errMasterScheme
	}
	m.db, err = databaseOf(u)
	return m, err
}

// databaseOf returns the database that a URL selects: by its path, unless that is a socket's,
// or by ?db=.
func databaseOf(u *url.URL) (int, error) {
	db := ""
	if u.Scheme != "unix" {
		db = strings.Trim(u.Path, "/")
	}
	for key, values := range u.Query() {
		switch {
		case key != "db":
			return 0, errMasterQuery
		case db != "":
			return 0, errMasterDB
		}
		db = values[0]
	}
	if db == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(db, 10, 31)
	if err != nil {
		return 0, errMasterDB
	}
	return int(n), nil
}

// dial connects to the master, logs in and selects the database, within patience; each reply
// after that may take as long. Everything is bounded, for a frozen server still accepts
// connections.
func (m master) dial(ctx context.Context, patience time.Duration) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	network, address := "tcp", m.addr
	if m.addr == "" {
		network, address = "unix", m.name
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	var username, password string
	if m.parsed != nil {
		if m.parsed.Scheme == "rediss" {
			dialer = &tls.Dialer{} // the server's name is the address's, the roots are the system's
		}
		username = m.parsed.User.Username()
		password, _ = m.parsed.User.Password()
	}
	return redis.DialContext(ctx, network, address,
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return redismaster.Bounded(conn), nil // whatever listens there, it cannot exhaust our memory
		}),
		redis.DialReadTimeout(patience),
		redis.DialWriteTimeout(patience),
		redis.DialUsername(username),
		redis.DialPassword(password),
		redis.DialDatabase(m.db),
	)
}

// secrets returns pairs for strings.NewReplacer that take the master's credentials out of
// a text: a second fence behind the library, whose errors name masters without them.
func (m master) secrets() []string {
	if m.parsed == nil || m.parsed.User == nil {
		return nil
	}
	pairs := []string{m.url, m.name, m.parsed.User.String() + "@", ""}
	if password, ok := m.parsed.User.Password(); ok && password != "" {
		pairs = append(pairs, ":"+password+"@", "@")
	}
	return pairs
}
