package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/defects"
)

// programs are the test programs of packages, without a mutant.
type programs struct {
	dir string // immutable

	mu    sync.Mutex        // guards byPkg
	byPkg map[string]string // the names of their files
}

var errNoBuild = errors.New("it does not build")

// of builds the test program of a package, once, and returns the name of its file.
func (p *programs) of(pkg string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name := p.byPkg[pkg]; name != "" {
		return name, nil
	}
	if p.byPkg == nil {
		p.byPkg = make(map[string]string)
	}
	name, err := filepath.Abs(filepath.Join(p.dir, fmt.Sprint("program", len(p.byPkg))))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "test", "-c", "-o", name, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	p.byPkg[pkg] = name
	return name, nil
}

// with makes the test program of a package with a mutant, and returns the name of its file. If the mutant does not
// compile, that is errNoBuild.
func (p *programs) with(m *mutant, pkg, name string) (string, error) {
	if filepath.Ext(m.file) == ".lua" {
		return name, p.patch(m, pkg, name)
	}
	dir := name + ".overlay"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	overlay, err := defects.WriteOverlay(".", dir, map[string]string{m.file: m.mutated()})
	if err != nil {
		return "", err
	}
	if exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", name, pkg).Run() != nil {
		return "", errNoBuild // the program was built without the mutant
	}
	return name, nil
}

// patch replaces the text of a script in the test program of a package. That is quicker than to build the program. The
// comment at the beginning of the script makes room for a longer text.
func (p *programs) patch(m *mutant, pkg, name string) error {
	original, err := p.of(pkg)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	text := m.mutated()
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	if len(text) > len(m.text) {
		return fmt.Errorf("%s has too little comment", m.file)
	}
	text = strings.Repeat("\n", len(m.text)-len(text)) + text
	if n := bytes.Count(program, []byte(m.text)); n != 1 {
		return fmt.Errorf("%s is %d times in the tests of %s, want once", m.file, n, pkg)
	}
	return os.WriteFile(name, bytes.Replace(program, []byte(m.text), []byte(text), 1), 0o700)
}
