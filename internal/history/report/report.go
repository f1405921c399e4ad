// Package report makes a page of a history: one HTML file, which a browser shows without a network. It has a lane for each lock
// and each client, with what was held, waited for and lost, with the faults, and with what a check has found.
//
// Names of locks and errors come from clients. They reach the page as text only. The page has a Content-Security-Policy that
// allows its own script and style by their hashes, and nothing else.
package report

import (
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/redlock-go/redlock/internal/history"
)

// A Page is what a report shows.
type Page struct {
	Title      string                 // what ran
	Source     string                 // on what, how, when
	Ops        []history.Operation    // in any order; a name is one lane
	Stopped    map[int][]history.Span // when the process of each client was stopped
	Faults     []Fault                // in any order
	Violations []history.Violation    // in the order of the list
	Facts      [][2]string            // the summary: what, and how much
	Table      [][]string             // the first row is the head
	Counted    string                 // how many faults there were of each kind
	NotShown   []string               // sentences
	Kinds      map[int]string         // what is said beside each client; nil: nothing
}

// A Fault is a fault, and when it was.
type Fault struct {
	Name    string // which
	Client  int    // whose links or process it concerns; negative: none
	Masters []int  // which it concerns, unless it has a Client
	history.Span
}

//go:embed page.html
var pageText string

//go:embed page.css
var style string

//go:embed draw.js
var drawing string

//go:embed page.js
var acting string

// violationsMost is how many violations the list has. All of them are counted.
const violationsMost = 500

// A filled is what the template is filled with.
type filled struct {
	Page
	Policy  string
	Style   template.CSS
	Script  template.JS
	Data    template.JS // a JSON value, whose encoding contains no <
	Verdict verdict
	Listed  []listed
	More    int // violations that are not listed
	Cut     string
}

// A verdict is the first thing that the page says.
type verdict struct{ Class, Sign, Head, Text string }

// A listed is one violation of the list.
type listed struct {
	Index      int
	Kind, Text string
	At         string // since the beginning; "": not known
}

// Write writes the page.
func Write(out io.Writer, p Page) error {
	d := newData(p)
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	script := drawing + acting
	f := filled{
		Page: p.printable(), Style: template.CSS(style), Script: template.JS(script), Data: template.JS(text),
		Policy:  fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hash(style), hash(script)),
		Verdict: d.verdict(p), Cut: d.cut, More: max(len(p.Violations)-violationsMost, 0),
	}
	for i, v := range p.Violations[:len(p.Violations)-f.More] {
		l := listed{Index: i, Kind: v.Kind, Text: printable(v.Text)}
		if v.At != 0 {
			l.At = clock(d.since(v.At))
		}
		f.Listed = append(f.Listed, l)
	}
	page := template.Must(template.New("page").Parse(pageText)) // not when the program begins, which may be for something else
	return page.Execute(out, f)
}

// hash returns how a policy names a script or a style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// printable returns text without characters that are not seen, or that change the order of others.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// printable returns the page with its texts made printable. Its operations are made so by newData.
func (p Page) printable() Page {
	p.Title, p.Source, p.Counted = printable(p.Title), printable(p.Source), printable(p.Counted)
	return p
}

// Free returns an error if a report cannot be made with this name: a file exists, or its directory cannot be written to.
func Free(name string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
		}
		return err
	}
	f, err := beside(name)
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// Create writes the page to a new file. If that fails, it leaves no file.
func Create(name string, p Page) error {
	return create(name, func(out io.Writer) error { return Write(out, p) })
}

// create makes a file with what write writes, or none. It replaces none that exists.
func create(name string, write func(io.Writer) error) (err error) {
	f, err := beside(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = naming(err, name)
		}
	}()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	// The name is taken by an empty file first, which rename replaces, since not all file systems have links.
	taken, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	taken.Close()
	if err := os.Rename(f.Name(), name); err != nil {
		os.Remove(name)
		return err
	}
	return nil
}

// beside creates a file in the directory of another.
func beside(name string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	return f, naming(err, name)
}

// naming returns an error of a file that names another one, which the reader knows.
func naming(err error, name string) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		failed.Path = name
	}
	return err
}
