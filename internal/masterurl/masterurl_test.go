package masterurl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/masterurl"
)

func TestParseReturnsTheAddress(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"host:port", "a:1", "a:1"},
		{"IPv6", "[::1]:1", "[::1]:1"},
		{"service name", "h:redis", "h:redis"},
		{"IPv6 URL with the default port", "redis://[::2]", "[::2]:6379"},
		{"credentials and database", "redis://u:s3kret@h:7/2", "h:7"},
		{"TLS with the default port", "rediss://:s3kret@h", "h:6379"},
		{"unix socket", "unix://:s3kret@/run/r.sock?db=1", "/run/r.sock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := masterurl.Parse(tt.raw)
			if err != nil || u.Address() != tt.want {
				t.Errorf("Parse(%q) has address %q, %v, want %q", tt.raw, u.Address(), err, tt.want)
			}
			if text := fmt.Sprintf("%v %+v %#v %s %q", u, u, u, u, u); strings.Contains(text, "s3kret") {
				t.Errorf("a printed URL shows the password: %s", text)
			}
		})
	}
}

func TestParseErrorsNeverRepeatTheURL(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"nothing", "", "empty"},
		{"no port", "s3kret", "neither a URL nor host:port"},
		{"no host", ":1", "neither a URL nor host:port"},
		{"password without a scheme", "s3kret@h:1", "neither a URL nor host:port"},
		{"unescaped # in the password", "redis://:s3kret#@h:1", "not a valid URL"},
		{"unescaped / in the password", "redis://:s3kret/@h:1", "not a valid URL"},
		{"unescaped % in the password", "redis://:s3kret%@h:1", "not a valid URL"},
		{"other scheme", "http://:s3kret@h:1", "unknown scheme, want redis, rediss or unix"},
		{"no host in a URL", "redis://:s3kret@/1", "no host"},
		{"no path to a socket", "unix://s3kret", "a unix URL needs an absolute path"},
		{"socket on a host", "unix://h/run/s3kret", "a unix URL needs an absolute path"},
		{"# behind the host", "redis://:s3kret@h:1#x", "a # must be written as %23"},
		{"# at the end", "redis://:s3kret@h:1#", "a # must be written as %23"},
		{"user without a password", "redis://s3kret@h:1", "a user without a password"},
		{"database by name", "redis://:s3kret@h:1/s3kret", "the database is not a number"},
		{"negative database", "redis://h:1/-1", "the database is not a number"},
		{"too large a database", "redis://h:1/99999999999", "the database is not a number"},
		{"control character in host:port", "s3kret\n:1", "neither a URL nor host:port"},
		{"port 0", "h:0", "neither a URL nor host:port"},
		{"port above 65535", "redis://:s3kret@h:65536", "no valid host and port"},
		{"bracket in the host", "redis://]:1", "no valid host and port"},
		{"control character in a path", "unix:///s3kret%0a", "a unix URL needs an absolute path"},
		{"two databases", "redis://h:1/1?db=2", "two databases"},
		{"unknown parameter", "redis://h:1?password=s3kret", "unknown parameter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := masterurl.Parse(tt.raw)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Parse(%q) = %v, want %q…", tt.raw, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3kret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestParseListNamesURLsByTheirPosition(t *testing.T) {
	for _, tt := range []struct {
		raw  []string
		want string
	}{
		{[]string{"a:1", "b:2", "redis://c"}, ""},
		{[]string{" a:1", "b:2 ", "\tredis://c\n"}, ""},
		{[]string{"a:1", "b:1", " a:1"}, "URLs 1 and 3 have the same address a:1; each master counts once"},
		{[]string{"a:1", "", "b:2"}, "URL 2: empty"},
		{[]string{" "}, "the list of masters is empty: set what it is read from, such as $REDLOCK_MASTERS, to host1:6379,host2:6379,host3:6379"},
		{[]string{"a:1", "b:1", "redis://:s3kret@a:1"}, "URLs 1 and 3 have the same address a:1; each master counts once"},
	} {
		urls, err := masterurl.ParseList(tt.raw)
		switch {
		case tt.want == "" && (err != nil || len(urls) != len(tt.raw)):
			t.Errorf("ParseList(%q) = %v, %v, want every URL", tt.raw, urls, err)
		case tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("ParseList(%q) = %v, want %q", tt.raw, err, tt.want)
		}
	}
}

func TestRedactHidesTheUserAndThePasswordOfAURL(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"text without a URL", "open /etc/redlock: user@host", "open /etc/redlock: user@host"},
		{"a URL without a user", `"redis://h:1/2" is no file`, `"redis://h:1/2" is no file`},
		{"a URL", "open rediss://u:s3kret@h:1: no such file", "open rediss://***@h:1: no such file"},
		{"a password that is not escaped", `open redis://:s3kret@ "s3kret"/@h:1`, "open redis://***@h:1"},
		{"two URLs", "redis://:s3kret@a:1,redis://:s3kret@b:1", "redis://***@b:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := masterurl.Redact(tt.text); got != tt.want {
				t.Errorf("Redact(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}
