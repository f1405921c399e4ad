package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redlock-go/redlock"
)

func TestParseMasters(t *testing.T) {
	for _, tt := range []struct {
		name, list, wantNames, wantAddrs string
	}{
		{"host:port", "a:1", "a:1", "a:1"},
		{"blanks around commas", " a:1 , b:2 ", "a:1 b:2", "a:1 b:2"},
		{"IPv6", "[::1]:1,redis://[::2]", "[::1]:1 [::2]:6379", "[::1]:1 [::2]:6379"},
		{"URL with credentials", "redis://u:s3kret@h:7/2", "h:7", "h:7"},
		{"TLS, default port", "rediss://:s3kret@h", "h:6379", "h:6379"},
		{"unix socket", "unix://:s3kret@/run/r.sock", "/run/r.sock", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			masters, err := parseMasters("--masters", tt.list)
			if err != nil {
				t.Fatal(err)
			}
			var names, addrs []string
			for _, m := range masters {
				names, addrs = append(names, m.name), append(addrs, m.addr)
			}
			if got := strings.Join(names, " "); got != tt.wantNames {
				t.Errorf("names %q, want %q", got, tt.wantNames)
			}
			if got := strings.Join(addrs, " "); got != tt.wantAddrs {
				t.Errorf("addresses %q, want %q", got, tt.wantAddrs)
			}
			if text := fmt.Sprintf("%v %+v %#v %s", masters, masters, masters, masters); strings.Contains(text, "s3kret") {
				t.Errorf("printed masters show the password: %s", text)
			}
		})
	}
}

func TestParseMastersFindsTheDatabase(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want int
	}{
		{"h:1", 0}, {"redis://h:1", 0}, {"redis://h:1/", 0}, {"redis://h:1/3", 3}, {"rediss://h?db=4", 4},
		{"unix:///run/r.sock", 0}, {"unix:///run/3?db=5", 5},
	} {
		if m, err := parseMaster(tt.url); err != nil || m.db != tt.want {
			t.Errorf("parseMaster(%q) has database %d, %v, want %d", tt.url, m.db, err, tt.want)
		}
	}
}

// TestParseMastersRefusesWhatOpenRefuses holds the two readers of URLs to each other.
func TestParseMastersRefusesWhatOpenRefuses(t *testing.T) {
	for _, entry := range []string{
		"h:1", "h", ":1", "u@h:1", "redis://h", "redis://h:1/2", "redis://h:1/x", "redis://h?db=1", "redis://h/1?db=1",
		"redis://h?x=1", "redis://u@h", "redis://u:p@h", "redis://:@h", "redis://h#", "redis://h#x", "redis:///1", "redis://h:1/2/3",
		"redis://h:1/-1", "redis://h:1/99999999999", "rediss://:p@h/", "http://h", "unix:///a", "unix://a", "unix://a/b",
		"unix:///a?db=2", "unix:///a?db=x", "unix://u:p@/a", "unix:///a?x=1", "://", "redis://h:x",
	} {
		client, openErr := redlock.Open([]string{entry}, &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
		if openErr == nil {
			client.Close()
		}
		if _, err := parseMaster(entry); (err == nil) != (openErr == nil) {
			t.Errorf("parseMaster(%q) = %v, and Open says %v", entry, err, openErr)
		}
	}
}

func TestParseMastersRefusesWithoutQuoting(t *testing.T) {
	for _, tt := range []struct{ name, list, want string }{
		{"nothing", "", "master 1 of 1 in --masters is empty"},
		{"an empty entry", "a:1,,b:2", "master 2 of 3 in --masters is empty"},
		{"no port", "a", "is neither a URL nor host:port"},
		{"no host", ":1", "is neither a URL nor host:port"},
		{"password without a scheme", "s3kret@h:1", "is neither a URL nor host:port"},
		{"unescaped # in the password", "redis://:s3kret#@h:1", "is not a valid URL"},
		{"unescaped / in the password", "redis://:s3kret/@h:1", "is not a valid URL"},
		{"unescaped % in the password", "redis://:s3kret%@h:1", "is not a valid URL"},
		{"other scheme", "http://:s3kret@h:1", "is no redis://, rediss:// or unix:// URL"},
		{"URL without host", "redis://:s3kret@/1", "names no host"},
		{"socket without path", "unix://s3kret", "names no socket"},
		{"# behind a password", "redis://:s3kret@h:1#x", "has a # that"},
		{"a user alone", "redis://s3kret@h:1", "has a user without a password"},
		{"socket on a host", "unix://h/run/r.sock", "names no socket"},
		{"database by name", "redis://:s3kret@h:1/s3kret", "names a database that is no number"},
		{"two databases", "redis://h:1/1?db=2", "names a database that is no number, or two"},
		{"unknown parameter", "redis://h:1?password=s3kret", "has a parameter other than"},
		{"twice", "a:1,redis://:s3kret@a:1", "master 2 of 2 in --masters is there twice: a:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseMasters("--masters", tt.list)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("parseMasters(%q) = %v, want %q", tt.list, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3kret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestSecretsAreTakenOutOfErrors(t *testing.T) {
	masters, err := parseMasters("--masters", "redis://u:s3kret@a:1,b:2,unix://:s3kret@/run/c")
	if err != nil {
		t.Fatal(err)
	}
	set, err := useServers(masters)
	if err != nil {
		t.Fatal(err)
	}
	defer set.free()
	for _, text := range []string{
		`dial "redis://u:s3kret@a:1": refused`,
		"dial u:s3kret@a:1: refused",
		"parse unix://:s3kret@/run/c",
		strings.Join(set.names, " "),
	} {
		if got := set.redact(fmt.Errorf("%s", text)).Error(); strings.Contains(got, "s3kret") {
			t.Errorf("redact(%q) = %q", text, got)
		}
	}
}
