package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheCommandsInTheDocumentsParse checks that the commands in the documents have valid flags. Each is run with
// invalid masters. Since masters are parsed last, only they are reported if the flags are valid.
func TestTheCommandsInTheDocumentsParse(t *testing.T) {
	t.Setenv(mastersEnv, "nix")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	masters := regexp.MustCompile(`--masters \S+|\$files`) // those are of TLS
	commands := 0
	for _, document := range []string{"README.md", "docs/operations.md", "docs/migration.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(document)))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(b[1]) {
				line, _, _ = strings.Cut(line, "#")
				line, _, _ = strings.Cut(line, " | ")
				line = strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/")
				if !strings.HasPrefix(line, "redlock ") || line == "redlock demo" {
					continue
				}
				commands++
				var out, errOut bytes.Buffer
				line = masters.ReplaceAllString(line, "")
				status := run(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &errOut)
				if status != exitOK && !strings.Contains(errOut.String(), "URL 1: neither") && status != exitNotFound {
					t.Errorf("%s: %s: exit status %d: %s", document, line, status, errOut.String())
				}
			}
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands were found", commands)
	}
}

// TestTheOperationsPageHasTheExitStatusesOfRun compares its table with the help.
func TestTheOperationsPageHasTheExitStatusesOfRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Jobs\n")
	table, _, _ = strings.Cut(table, "\n## ")
	statuses := func(text, form string) (all []string) {
		for _, m := range regexp.MustCompile(form).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	_, help, _ := strings.Cut(runDescription, "Exit status:")
	got, want := statuses(table, `(?m)^\| (\d+) \|`), statuses(help, `(?m)^ +(\d+)  `)
	if len(want) < 5 || !slices.Equal(got, want) {
		t.Errorf("the table has the statuses %v, and the help %v", got, want)
	}
}

// TestTheSupportPageListsEachFuzzTarget compares its table with the tests.
func TestTheSupportPageListsEachFuzzTarget(t *testing.T) {
	page, err := os.ReadFile("../../docs/support.md")
	if err != nil {
		t.Fatal(err)
	}
	target, rows := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`), []string(nil)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir, _ := filepath.Rel("../..", filepath.Dir(path))
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			rows = append(rows, "| `"+m[1]+"` | `"+filepath.ToSlash(dir)+"` |")
		}
		return err
	})
	if err != nil || len(rows) < 10 {
		t.Fatalf("%d targets were found: %v", len(rows), err)
	}
	for _, row := range rows {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/support.md lacks the row %s", row)
		}
	}
	if n := strings.Count(string(page), "| `Fuzz"); n != len(rows) {
		t.Errorf("docs/support.md lists %d targets, and there are %d", n, len(rows))
	}
}
