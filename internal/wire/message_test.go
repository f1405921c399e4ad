package wire

import (
	"fmt"
	"strings"
	"testing"
)

func TestAGrantIsReadFromItsMessage(t *testing.T) {
	for _, row := range []struct {
		text string
		want Grant
	}{
		{"+ T run 5 0 k", Grant{"k", "T", 0, "", "", Memory{"run", 5}}},
		{"+ T run -2 0 k", Grant{"k", "T", 0, "", "", Memory{"run", -2}}},
		{"+ T run 5 12/N@web-1/2 k", Grant{"k", "T", 12, "", "N@web-1/2", Memory{"run", 5}}},
		{"+ T@web-1/2 0123 2000000000000 123456789012345  a key \n", Grant{" a key \n", "T@web-1/2", 123456789012345, "", "", Memory{"0123", 2000000000000}}},
	} {
		if got, ok := ParseGrant(row.text); !ok || got != row.want {
			t.Errorf("ParseGrant(%q) = %+v, %t, want %+v", row.text, got, ok, row.want)
		}
	}
}

func TestAMessageThatIsNoGrantIsNotTakenForOne(t *testing.T) {
	for _, text := range []string{
		"", "+", "+ ", "+     ", "T k", "+ k", "+ T run 5 0", "+ T run 5 0 ", "+  run 5 0 k", "++ T run 5 0 k", "- T run 5 0 k", " + T run 5 0 k",
		"+ T run x 0 k", "+ T run 5 x k", "+ T run  0 k", "+ T run 5  k", "+ T run 5 -1 k", "+ T run 5 1.5 k", "+ T run 5e3 0 k", "+ T run 0x5 0 k",
		"+ T run 5 1234567890123456 k", "+ T run 1234567890123456 0 k", "+ T run 99999999999999999999 0 k", "+ T run 5 99999999999999999999 k",
		"+ " + strings.Repeat("T", tokenMost+1) + " run 5 0 k",
	} {
		if got, ok := ParseGrant(text); ok || got != (Grant{}) {
			t.Errorf("ParseGrant(%q) = %+v, %t, want it to be none", text, got, ok)
		}
	}
}

func TestARecallIsReadFromItsMessage(t *testing.T) {
	for _, row := range []struct {
		text, token, key string
		ok               bool
	}{
		{"? T~id@web k", "T~id@web", "k", true},
		{"? T  a key ", "T", " a key ", true},
		{"?", "", "", false},
		{"? ", "", "", false},
		{"? T", "", "", false},
		{"? T ", "", "", false},
		{"?  k", "", "", false},
		{"T k", "", "", false},
		{"? " + strings.Repeat("T", tokenMost+1) + " k", "", "", false},
	} {
		token, key, ok := Recall.Parse(row.text)
		if ok != row.ok || ok && (token != row.token || key != row.key) {
			t.Errorf("Recall.Parse(%q) = %q, %q, %t, want %q, %q, %t", row.text, token, key, ok, row.token, row.key, row.ok)
		}
	}
}

// FuzzMessage checks that a message is a grant, says that a lock was left free, or neither, and that what is read from it is within bounds.
func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		"", "T k", "+ T run -2 0 k", "+ T run 5 123456789012345 a key", "+ T  5 0 k", "+ + + + + +", "+ T run +5 -0 k", "+ T run 5 0", "+\x00T run 5 0 k",
		"+ T run 007 00 k", "+ T run 5 0/N@web-1/2 k", "+ T run 5 0/ k", "+ T run 5 /N k", "redlock:readers k", "+ T run 9223372036854775808 0 k", "+ \xff\xfe run 5 0 \x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, ok := ParseGrant(text)
		if !ok {
			if g != (Grant{}) {
				t.Errorf("ParseGrant(%q) = %+v, although it is no grant", text, g)
			}
			return
		}
		if g.Key == "" || g.Token == "" || len(g.Token) > tokenMost || len(g.Next) > tokenMost || strings.Contains(g.Token+g.Run+g.Next, " ") {
			t.Errorf("ParseGrant(%q) = %+v", text, g)
		}
		if g.Fence < 0 || g.Fence >= 1e15 || g.Left <= -1e15 || g.Left >= 1e15 {
			t.Errorf("ParseGrant(%q): the fence is %d and the record lives for %d ms, want less than 16 digits", text, g.Fence, g.Left)
		}
		next := ""
		if g.Next != "" {
			next = "/" + g.Next
		}
		again := fmt.Sprintf("+ %s %s %d %d%s %s", g.Token, g.Run, g.Left, g.Fence, next, g.Key)
		if g2, ok := ParseGrant(again); !ok || g2 != g {
			t.Errorf("ParseGrant(%q) = %+v, but ParseGrant(%q) = %+v, %t", text, g, again, g2, ok)
		}
		if token, _, ok := Freed.Parse(text); ok && token != "+" {
			t.Errorf("%q is a grant, and says that the lock of %q was left free", text, token)
		}
	})
}
