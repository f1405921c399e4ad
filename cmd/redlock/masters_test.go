package main

import (
	"fmt"
	"strings"
	"testing"
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
