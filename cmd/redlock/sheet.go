package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// screenWidth is how many columns a screen has. Tables and texts are folded to fit in.
const screenWidth = 80

// A sheet is a table. Each row may have remarks, which stand below it.
type sheet struct {
	head  []string
	rows  []sheetRow
	paint func(column int, cell string) string // returns a cell with its color; nil for none
}

type sheetRow struct {
	cells   []string
	remarks []string
}

// String renders the sheet. If it is wider than a screen, the first cell of each row has a line of its own.
func (s sheet) String() string {
	var b strings.Builder
	first := 0 // the first column behind the name
	widths := s.widths()
	if total(widths) > screenWidth {
		first = 1
	}
	line := func(cells []string, paint bool) {
		if first == 1 {
			b.WriteString(cells[0] + "\n  ")
		}
		for c := first; c < len(cells); c++ {
			cell := cells[c]
			if paint && s.paint != nil {
				cell = s.paint(c, cell)
			}
			b.WriteString(cell)
			if c < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cells[c])+2))
			}
		}
		b.WriteString("\n")
	}
	line(s.head, false)
	for _, r := range s.rows {
		line(r.cells, true)
		for _, remark := range r.remarks {
			b.WriteString(fold(remark, "    ", "      "))
		}
	}
	return b.String()
}

// widths returns the width of each column.
func (s sheet) widths() []int {
	widths := make([]int, len(s.head))
	widen := func(cells []string) {
		for c, cell := range cells {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	widen(s.head)
	for _, r := range s.rows {
		widen(r.cells)
	}
	return widths
}

// total returns the width of a line with columns of these widths.
func total(widths []int) int {
	sum := 2 * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// fold returns text with an indent before each line, folded at blanks where a line is wider than a screen. The
// rest of a folded line has a margin instead. A word that is wider than a screen stays whole.
func fold(text, indent, margin string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		line = indent + line
		for utf8.RuneCountInString(line) > screenWidth {
			runes := []rune(line)
			at := foldAt(runes, utf8.RuneCountInString(margin))
			if at < 0 {
				break
			}
			b.WriteString(strings.TrimRight(string(runes[:at]), " ") + "\n")
			line = margin + strings.TrimLeft(string(runes[at:]), " ")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// foldAt returns the blank at which a line is folded: the last one on the screen, else the first one beyond it.
// Blanks before from belong to the margin. Without a blank it returns -1.
func foldAt(line []rune, from int) int {
	for i := screenWidth; i >= from; i-- {
		if line[i] == ' ' {
			return i
		}
	}
	for i := screenWidth + 1; i < len(line); i++ {
		if line[i] == ' ' {
			return i
		}
	}
	return -1
}

// shown returns a name for a table: quoted if it is not plain, and cut if it is long.
func shown(name string) string {
	const most = 60
	cut := ""
	if len(name) > most {
		name, cut = strings.ToValidUTF8(name[:most], ""), "…"
	}
	if strings.ContainsAny(name, " \t\"") || redisconn.Printable(name) != name {
		return fmt.Sprintf("%q", name) + cut
	}
	return name + cut
}

// The colors of cells.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// colored returns text in a color.
func colored(color, text string) string { return "\x1b[" + color + "m" + text + "\x1b[0m" }

// wantsColor reports whether colors are shown: on a terminal, unless the user has set NO_COLOR.
func wantsColor(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && isTerminal(f) && os.Getenv("NO_COLOR") == ""
}

// isTerminal reports whether f is a terminal that understands escape sequences.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// plural returns n and its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writeJSON writes v as one line. Characters that a terminal could obey are escaped.
func writeJSON(out io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var line strings.Builder
	for _, r := range string(text) {
		if unicode.IsGraphic(r) {
			line.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&line, `\u%04x`, unit)
		}
	}
	_, err = fmt.Fprintln(out, line.String())
	return err
}
