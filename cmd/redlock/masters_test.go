package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseMastersKeepsTheURLsForOpenAndPrintsAddresses(t *testing.T) {
	masters, err := parseMasters("--masters", " a:1 , redis://u:s3kret@h:7/2,unix://:s3kret@/run/r.sock")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rawURLs(masters), ","); got != " a:1 , redis://u:s3kret@h:7/2,unix://:s3kret@/run/r.sock" {
		t.Errorf("URLs for redlock.Open: %q", got)
	}
	if got := fmt.Sprintf("%v", masters); got != "[a:1 h:7 /run/r.sock]" {
		t.Errorf("the masters print as %s, want their addresses", got)
	}
	if text := fmt.Sprintf("%+v %#v %q", masters, masters, masters); strings.Contains(text, "s3kret") {
		t.Errorf("printed masters show the password: %s", text)
	}
}

func TestParseMastersSaysWhichURLOfWhichSourceIsWrong(t *testing.T) {
	for _, tt := range []struct{ name, list, want string }{
		{"an empty entry", "a:1,,b:2", "--masters: URL 2: empty"},
		{"no port", "a:1,b", "--masters: URL 2: neither a URL nor host:port"},
		{"twice", "a:1,redis://:s3kret@a:1", "--masters: URLs 1 and 2 have the same address a:1; each master counts once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parseMasters("--masters", tt.list); err == nil || err.Error() != tt.want {
				t.Errorf("parseMasters(%q) = %v, want %q", tt.list, err, tt.want)
			}
		})
	}
}
