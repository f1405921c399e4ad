package redisconn

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", ""},
		{"ERR plain", "ERR plain"},
		{"a  b", "a  b"},
		{"two\r\nlines\n", "two lines"},
		{"\ttabs\t\tand\n\n", "tabs and"},
		{"\x1b[31mred\x1b[0m", "?[31mred?[0m"},
		{"bell\a back\b\b null\x00 del\x7f", "bell? back?? null? del?"},
		{"C1 \u0085\u009b31m", "C1 ??31m"},
		{"title \x1b]0;x\x07", "title ?]0;x?"},
		{"right to left \u202egnp.exe", "right to left ?gnp.exe"},
		{"zero\u200bwidth, line\u2028end", "zero?width, line?end"},
		{"not UTF-8 \xff\xfe", "not UTF-8 ??"},
		{"größer, 鎖, no\u00a0break", "größer, 鎖, no\u00a0break"},
	} {
		if got := Printable(row.text); got != row.want {
			t.Errorf("Printable(%q) = %q, want %q", row.text, got, row.want)
		}
	}
}

func TestServerTextIsShortened(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("鎖", 1000), strings.Repeat("\x1b[2J", 1000), strings.Repeat("\xff", 1000)} {
		got := ServerText(text)
		if len(got) > textLongest+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("ServerText of %d bytes is %.40q…, %d bytes, want %d bytes of UTF-8 at most", len(text), got, len(got), textLongest)
		}
	}
}
