// Package usermodule builds a program in a module of its own, by the commands of a document, as a user of a checkout
// does. It is for tests.
package usermodule

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/redlock-go/redlock/internal/programs"
)

// checkout is how the documents call the directory of the repository.
const checkout = "/path/to/redlock"

var (
	command     = regexp.MustCompile(`go mod edit -replace (\S+=` + checkout + `\S*)`)
	moduleLine  = regexp.MustCompile(`(?m)^module (.*)$`)
	replaceLine = regexp.MustCompile(`(?m)^replace .*$`)
)

// Build makes a module with the program, runs the commands in document that replace modules, with the directory of
// this repository for /path/to/redlock, and builds the program. It fails t if there are not n such commands.
//
// dir is the directory of the module that the program imports, relative to that of the repository. The program's module
// has the dependencies of that one, as go mod tidy would find them, so nothing is downloaded.
func Build(t testing.TB, document []byte, n int, dir, program string) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	own := t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(own, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	run := func(args ...string) {
		cmd := programs.Command(t, "go", args...)
		cmd.Dir = own
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	gomod := read("go.mod")
	path := moduleLine.FindSubmatch(gomod)[1]
	gomod = moduleLine.ReplaceAll(gomod, []byte("module example.com/shop"))
	write("go.mod", replaceLine.ReplaceAll(gomod, nil))
	write("go.sum", read("go.sum"))
	write("main.go", []byte(program))
	run("mod", "edit", "-require", string(path)+"@v0.0.0-00010101000000-000000000000")
	commands := command.FindAllSubmatch(document, -1)
	if len(commands) != n {
		t.Fatalf("the document has %d commands that replace modules, want %d", len(commands), n)
	}
	for _, c := range commands {
		run("mod", "edit", "-replace", string(bytes.ReplaceAll(c[1], []byte(checkout), []byte(root))))
	}
	run("build", "-o", os.DevNull, ".")
}
