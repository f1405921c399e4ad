package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

// wantNarrow fails t if a line is wider than a screen.
func wantNarrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > screenWidth {
			t.Errorf("a line of %d columns:\n%s", n, line)
		}
	}
}

func TestASheetThatIsTooWideHasTheNamesOnLinesOfTheirOwn(t *testing.T) {
	s := sheet{head: []string{"NAME", "A", "B"}, rows: []sheetRow{{[]string{"n", "1", "22"}, []string{"remark"}}, {[]string{"ñn", "11", "2"}, nil}}}
	if got, want := s.String(), "NAME  A   B\nn     1   22\n    remark\nñn    11  2\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	s.rows[1].cells[0] = strings.Repeat("m", 75)
	want := "NAME\n  A   B\nn\n  1   22\n    remark\n" + strings.Repeat("m", 75) + "\n  11  2\n"
	if got := s.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestColorsChangeNoColumn(t *testing.T) {
	s := sheet{head: []string{"MASTER", "VOTES", "X"}, rows: []sheetRow{
		{[]string{"a", "yes", "1"}, nil}, {[]string{"b", "no", "2"}, nil}, {[]string{"c", "not yet", "3"}, nil},
	}}
	plain := s.String()
	s.paint = paintVotes
	painted := s.String()
	for _, want := range []string{"\x1b[32myes\x1b[0m      1", "\x1b[31mno\x1b[0m       2", "\x1b[33mnot yet\x1b[0m  3"} {
		if !strings.Contains(painted, want) {
			t.Errorf("no %q in %q", want, painted)
		}
	}
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"} {
		painted = strings.ReplaceAll(painted, code, "")
	}
	if painted != plain {
		t.Errorf("without colors %q, want %q", painted, plain)
	}
}

func TestFoldBreaksLinesAtBlanks(t *testing.T) {
	w := strings.Repeat("w", 39)
	for _, tt := range []struct{ name, text, want string }{
		{"short", "a b\nc\n", "-a b\n-c\n"},
		{"just fits", w + " " + w, "-" + w + " " + w + "\n"},
		{"too long by one", w + " w" + w, "-" + w + "\n+w" + w + "\n"},
		{"three lines", w + " " + w + " " + w + " " + w + " end", "-" + w + " " + w + "\n+" + w + " " + w + "\n+end\n"},
		{"a word wider than the screen", "a " + w + w + w + " b", "-a\n+" + w + w + w + "\n+b\n"},
		{"nothing else", w + w + w, "-" + w + w + w + "\n"},
		{"empty", "", "-\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fold(tt.text, "-", "+"); got != tt.want {
				t.Errorf("fold = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheTableOfLocksFitsAScreen(t *testing.T) {
	const token = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@"
	lock := lockOfNames{name: "shop:stock", Holding: holding.Holding{Holder: wire.Holder{Token: token + "web-1/4711", Left: 8 * time.Second}, Masters: 5, Need: 3, Fence: 1 << 53, Queue: holding.Queue{Waiting: 2,
		Waiters: []wire.Waiter{{ID: token + "web-2/88", For: time.Second}, {ID: token + "web-3/9", For: time.Second}}}}}
	long := lock
	long.name, long.Token = strings.Repeat("n", 70), token+"payments-7d9f8b6c5d-x2x4z/1"
	broken := lockOfNames{name: "list", problem: errors.New("the key holds data that is not a lock")}
	for _, locks := range [][]lockOfNames{{lock}, {lock, broken}, {lock, long, broken}} {
		text := locksTable(observation{masters: 5, need: 3, locks: locks}, nil).String()
		wantNarrow(t, text)
		for _, l := range locks {
			want(t, text, l.name[:min(len(l.name), 60)])
		}
		if len(locks) > 1 {
			want(t, text, "\n    waiting: web-2/88 1.0s, web-3/9 1.0s\n", "\n    the key holds data that is not a lock\n")
		}
	}
}

// If many wait, it may be that none of them is listed by enough masters.
func TestTheTableSaysHowManyWaitIfNoneIsKnown(t *testing.T) {
	for _, name := range []string{"n", strings.Repeat("n", 70)} {
		lock := lockOfNames{name: name, Holding: holding.Holding{Masters: 5, Need: 3, Queue: holding.Queue{Waiting: 700}}}
		text := locksTable(observation{masters: 5, need: 3, locks: []lockOfNames{lock}}, nil).String()
		if !regexp.MustCompile(`(?m)  700$`).MatchString(text) || strings.Contains(text, ", …") || strings.Contains(text, "waiting:") {
			t.Errorf("the table is\n%s", text)
		}
	}
}

// TestTheTableInTheDocumentIsThatOfStatus compares the table in docs/operations.md with what redlock status prints.
func TestTheTableInTheDocumentIsThatOfStatus(t *testing.T) {
	const token = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@"
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	lock := lockOfNames{name: "shop:stock", Holding: holding.Holding{Holder: wire.Holder{Token: token + "web-1/4711", Left: 8200 * time.Millisecond}, Masters: 5, Need: 3, Queue: holding.Queue{Waiting: 2,
		Waiters: []wire.Waiter{{ID: token + "web-2/88", For: 1600 * time.Millisecond}, {ID: token + "web-3/9", For: 200 * time.Millisecond}}}}}
	table := locksTable(observation{masters: 5, need: 3, locks: []lockOfNames{lock}}, nil).String()
	if !strings.Contains(string(text), "```\n"+table+"```\n") {
		t.Errorf("docs/operations.md does not have this table:\n%s", table)
	}
}
