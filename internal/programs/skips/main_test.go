package main

import (
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:9: for want of redis-server: install Redis to run this test\n"}
{"Action":"skip","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:9: for want of redis-server: install Redis to run this test\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:9: not with -short\n"}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestD","Output":"what a test says that passes\n"}
{"Action":"pass","Package":"p","Test":"TestD","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":1.5}
{"Action":"skip","Package":"q","Elapsed":0}
`

func TestTheEndSaysHowManyTestsWereSkippedAndForWantOfWhat(t *testing.T) {
	for _, tt := range []struct {
		name, more, want string
		ok               bool
	}{
		{"none fails", "", "ok  \tp\t1.500s\n\n1 passed, 0 failed, 3 skipped\n     1 skipped for another reason\n" +
			"     2 skipped for want of redis-server: install Redis\n", true},
		{"one fails", `{"Action":"output","Package":"p","Test":"TestE","Output":"want 1\n"}` + "\n" +
			`{"Action":"fail","Package":"p","Test":"TestE","Elapsed":0}` + "\n", "want 1\nFAIL\tp TestE\n\n1 passed, 1 failed, 3 skipped\n", false},
		{"a package does not build", `{"Action":"build-output","ImportPath":"r","Output":"undefined: x\n"}` + "\n" +
			`{"Action":"build-fail","ImportPath":"r"}` + "\n", "undefined: x\nFAIL\tr\n\n1 passed, 1 failed, 3 skipped\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := report(strings.NewReader(events+tt.more), &out)
			if ok != tt.ok || err != nil || !strings.Contains(out.String(), tt.want) {
				t.Errorf("report = %v, %v, and prints\n%s\nwant %v, and\n%s", ok, err, &out, tt.ok, tt.want)
			}
		})
	}
}

func TestNoTestsAreNoSuccess(t *testing.T) {
	for _, text := range []string{"", "not an event\n"} {
		if ok, _ := report(strings.NewReader(text), new(strings.Builder)); ok {
			t.Errorf("report of %q = true, want false", text)
		}
	}
}
