// Package masterurl reads the URLs of masters and connects to them. The library and the command use it, so
// both accept the same URLs.
//
// A URL may contain a password. No error of this package repeats a URL or a password, and printing a URL
// shows only its address.
package masterurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// A URL says where a master is and how to log in there. The zero URL is not valid.
type URL struct {
	network  string // "tcp" or "unix"
	address  string // host:port, or the path of a socket
	tls      bool
	username string
	password string
	db       int
}

// Address returns host:port, or the path of a unix socket. It contains no password.
func (u URL) Address() string { return u.address }

// TLS reports whether the connection to the master uses TLS.
func (u URL) TLS() bool { return u.tls }

// Database returns the number of the database to select.
func (u URL) Database() int { return u.db }

// String returns the address, so that a URL that is printed by mistake shows no password.
func (u URL) String() string { return u.address }

// GoString returns the address, for %#v.
func (u URL) GoString() string { return u.address }

// credentials matches what may be the user and the password of a URL, up to the last @: a password that was not escaped may
// contain any character.
var credentials = regexp.MustCompile(`://.*@`)

// Redact returns a line of text without the user and the password of a URL in it. It may hide more than that, and never less.
// It is for text that repeats what somebody has typed in the wrong place.
func Redact(text string) string { return credentials.ReplaceAllString(text, "://***@") }

// ParseList parses one URL for each master. An error names the URL by its position,
// counted from 1. Two URLs with the same address are an error, since each master has one
// vote.
func ParseList(raw []string) ([]URL, error) {
	if len(raw) == 1 && strings.TrimSpace(raw[0]) == "" {
		return nil, errors.New("the list of masters is empty: set what it is read from, such as $REDLOCK_MASTERS, to host1:6379,host2:6379,host3:6379")
	}
	urls := make([]URL, len(raw))
	seen := make(map[string]int)
	for i, r := range raw {
		u, err := Parse(r)
		if err != nil {
			return nil, fmt.Errorf("URL %d: %w", i+1, err)
		}
		if first, twice := seen[u.address]; twice {
			return nil, fmt.Errorf("URLs %d and %d have the same address %s; each master counts once", first+1, i+1, u.address)
		}
		seen[u.address] = i
		urls[i] = u
	}
	return urls, nil
}

// Parse parses redis://[user:password@]host[:port][/db], rediss:// likewise for TLS,
// unix://[user:password@]/path[?db=n], or host:port. Spaces around it do not count. It discards the errors of
// net/url, which quote the URL.
func Parse(raw string) (URL, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return URL{}, errors.New("empty")
	}
	if !strings.Contains(raw, "://") {
		if !isAddress(raw) || strings.ContainsAny(raw, "@/") {
			return URL{}, errors.New("neither a URL nor host:port")
		}
		return URL{network: "tcp", address: raw}, nil
	}
	parsed, err := url.Parse(raw)
	if err != nil {
		return URL{}, errors.New("not a valid URL (special characters in a password must be percent-encoded)")
	}
	if parsed.Fragment != "" || strings.HasSuffix(raw, "#") {
		// The fragment is most likely the rest of a password that was not escaped.
		return URL{}, errors.New("a # must be written as %23")
	}
	u := URL{network: "tcp", tls: parsed.Scheme == "rediss"}
	if parsed.User != nil {
		password, ok := parsed.User.Password()
		if !ok {
			// redis-cli uses a user name without a password as the password. Other clients use it as the user.
			return URL{}, errors.New("a user without a password: write :password@ or user:password@")
		}
		u.username, u.password = parsed.User.Username(), password
	}
	db := strings.Trim(parsed.Path, "/")
	switch parsed.Scheme {
	case "redis", "rediss":
		if parsed.Hostname() == "" {
			return URL{}, errors.New("no host")
		}
		port := parsed.Port()
		if port == "" {
			port = "6379"
		}
		if u.address = net.JoinHostPort(parsed.Hostname(), port); !isAddress(u.address) {
			return URL{}, errors.New("no valid host and port")
		}
	case "unix":
		if parsed.Host != "" || parsed.Path == "" || !isPrintable(parsed.Path) {
			return URL{}, errors.New("a unix URL needs an absolute path, as in unix:///run/redis.sock")
		}
		u.network, u.address, db = "unix", parsed.Path, ""
	default:
		return URL{}, errors.New("unknown scheme, want redis, rediss or unix")
	}
	return u, u.setDB(db, parsed.Query())
}

// isAddress reports whether s is a printable host:port with a valid port. Errors and log lines name a master
// by its address.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || port == "" || !isPrintable(s) {
		return false
	}
	if strings.Trim(port, "0123456789") != "" {
		return true // the name of a service
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func isPrintable(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) }

// setDB takes the database from the path or from ?db=.
func (u *URL) setDB(path string, query url.Values) error {
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
	u.db = int(n)
	return nil
}
