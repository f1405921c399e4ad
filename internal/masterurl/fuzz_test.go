package masterurl

import (
	"net"
	"strings"
	"testing"
	"unicode"
)

// secret stands for a password in fuzzed URLs. No error may repeat it.
const secret = "s3kr3tPW"

// FuzzParse checks that Parse tells no password, and that a URL that it
// returns can be dialled.
func FuzzParse(f *testing.F) {
	for _, parts := range [][2]string{
		{"redis://:", "@h:6379/3"}, {"rediss://user:", "@[::1]:6380"}, {"unix://:", "@/run/redis.sock?db=2"}, {"", "h:6379"},
		{"redis://:", "#@h"}, {"redis://:", "/@h"}, {"redis://", "@h"}, {"http://:", "@h"}, {"redis://:", "@h?x=1"}, {"redis://:", "@h/1?db=2"},
		{"unix://host/", ""}, {"", ":6379"}, {"", ""}, {"redis://:%", "@h"}, {"redis://:", "@h:port"}, {"redis://:", "@:1"}, {"", "\n:1"},
		{"redis://", "]:1"}, {"unix:///", "\x00"}, {"redis://h/", ""}, {"redis://h/?db=1&db=", ""}, {"", ":99999"}, {"redis://h:99999/", ""},
	} {
		f.Add(parts[0], parts[1], false)
		f.Add(parts[0], parts[1], true)
	}
	f.Fuzz(func(t *testing.T, before, after string, password bool) {
		raw := before + after
		if password {
			raw = before + secret + after
		}
		u, err := Parse(raw)
		if err != nil {
			if text := err.Error(); strings.Contains(text, secret) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("Parse(%q) = %q, want a printable line without the password", raw, text)
			}
			return
		}
		checkURL(t, raw, u)
		again, err := Parse(u.At("h:1"))
		if want := (URL{network: "tcp", address: "h:1", username: u.username, password: u.password, db: u.db}); err != nil || u.password != "" && again != want {
			t.Errorf("Parse(%q) at another address has the user %q, the password %q and the database %d, %v, want %q, %q and %d", raw, again.username, again.password, again.db, err, u.username, u.password, u.db)
		}
	})
}

// checkURL fails t unless u can be dialled.
func checkURL(t *testing.T, raw string, u URL) {
	t.Helper()
	if strings.ContainsFunc(u.address, unicode.IsControl) {
		t.Errorf("Parse(%q) has the address %q, want a printable one: errors name the master by it", raw, u.address)
	}
	if u.db < 0 {
		t.Errorf("Parse(%q) has the database %d", raw, u.db)
	}
	switch u.network {
	case "unix":
		if !strings.HasPrefix(u.address, "/") || u.tls {
			t.Errorf("Parse(%q) = %v, want an absolute path without TLS", raw, u)
		}
	case "tcp":
		host, port, err := net.SplitHostPort(u.address)
		if err != nil || host == "" || port == "" {
			t.Errorf("Parse(%q) has the address %q, want host:port", raw, u.address)
		}
	default:
		t.Errorf("Parse(%q) has the network %q", raw, u.network)
	}
}
