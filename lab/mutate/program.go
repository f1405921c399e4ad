package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/defects"
)

// programs are the test programs of packages. All mutants of Go files are in them, and an environment variable switches one on. So
// no mutant of a Go file needs a build of its own.
type programs struct {
	dir     string // immutable
	overlay string // immutable: go's -overlay, with the mutants

	mu    sync.Mutex        // guards byPkg
	byPkg map[string]string // the names of their files
}

const (
	// on is a condition that is true if the mutant is switched on. NUMBER stands for its number.
	on = "mutantIs(NUMBER)"
	// numberVariable has the number of the mutant that is switched on. If reachedVariable names a file, the numbers of the mutants
	// that were reached are written to it.
	numberVariable, reachedVariable = "REDLOCK_MUTANT", "REDLOCK_MUTANTS_REACHED"
)

// switches is the file that is added to each package with mutants.
const switches = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var (
	mutantNumber = os.Getenv("` + numberVariable + `")
	mutantOn, _  = strconv.Atoi(mutantNumber)
	mutantFile   = os.Getenv("` + reachedVariable + `")
	mutantsSeen  sync.Map
)

func mutantIs(n int) bool {
	if mutantFile != "" {
		mutantSeen(n)
	}
	return n == mutantOn
}

func mutantSeen(n int) {
	if _, seen := mutantsSeen.LoadOrStore(n, true); seen {
		return
	}
	f, err := os.OpenFile(mutantFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strconv.Itoa(n) + "\n"); err != nil {
		panic(err)
	}
}
`

// newPrograms returns the programs with the mutants of Go files among these, each with its number. Those of scripts are patched later.
func newPrograms(dir string, mutants []*mutant) (*programs, error) {
	byFile := make(map[string][]*mutant)
	for _, m := range mutants {
		if filepath.Ext(m.file) == ".go" {
			byFile[m.file] = append(byFile[m.file], m)
		}
	}
	files := make(map[string]string)
	for file, of := range byFile {
		files[file] = switched(of)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		files[filepath.Join(filepath.Dir(file), "mutants_switched.go")] = fmt.Sprintf(switches, parsed.Name)
	}
	overlay, err := defects.WriteOverlay(".", dir, files)
	return &programs{dir: dir, overlay: overlay, byPkg: make(map[string]string)}, err
}

// switched returns the text of a file in which each of its mutants can be switched on.
func switched(mutants []*mutant) string {
	type part struct {
		at, other int // the place, and the other end of what is wrapped
		before    bool
		text      string
	}
	var parts []part
	for _, m := range mutants {
		number := fmt.Sprint(m.number)
		parts = append(parts, part{m.wrap.from, m.wrap.until, true, strings.ReplaceAll(m.wrap.before, "NUMBER", number)},
			part{m.wrap.until, m.wrap.from, false, strings.ReplaceAll(m.wrap.after, "NUMBER", number)})
	}
	// At one place, ends come before beginnings. What begins later ends earlier; of equals, what began last ends first.
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := parts[i], parts[j]
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.before != b.before:
			return map[bool]int{true: 1, false: -1}[a.before]
		case a.other != b.other:
			return cmp.Compare(b.other, a.other)
		case a.before:
			return cmp.Compare(i, j)
		}
		return cmp.Compare(j, i)
	})
	text, last := mutants[0].text, 0
	var all strings.Builder
	for _, i := range order {
		all.WriteString(text[last:parts[i].at])
		all.WriteString(parts[i].text)
		last = parts[i].at
	}
	all.WriteString(text[last:])
	return all.String()
}

// of builds the test program of a package, once, and returns the name of its file.
func (p *programs) of(pkg string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name := p.byPkg[pkg]; name != "" {
		return name, nil
	}
	name, err := filepath.Abs(filepath.Join(p.dir, fmt.Sprint("program", len(p.byPkg))))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", p.overlay, "-o", name, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	p.byPkg[pkg] = name
	return name, nil
}

// patch replaces the text of a script in the test program of a package, and writes the program to a file. The comment at the beginning
// of the script makes room for a longer text. A first line that Redis reads as flags stays: a test checks it.
func (p *programs) patch(m *mutant, pkg, name string) error {
	original, err := p.of(pkg)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	flags, text := "", m.mutated()
	if strings.HasPrefix(text, "--!") {
		flags, text, _ = strings.Cut(text, "\n")
		flags += "\n"
	}
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	room := len(m.text) - len(flags) - len(text)
	if room < 0 {
		return errors.New("the script has too little comment")
	}
	text = flags + strings.Repeat("\n", room) + text
	if n := bytes.Count(program, []byte(m.text)); n != 1 {
		return fmt.Errorf("the script is %d times in the tests of %s, want once", n, pkg)
	}
	return os.WriteFile(name, bytes.Replace(program, []byte(m.text), []byte(text), 1), 0o700)
}
