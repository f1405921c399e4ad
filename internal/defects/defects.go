// Package defects holds defects that can be built into the library on purpose, to
// show that the tests of the whole find them. Each is a few edits of source text,
// which the go command applies by its -overlay flag: the working tree is not changed,
// and the library has no hooks for it.
//
//	file, err := defect.Overlay(root, dir)
//	exec.Command("go", "build", "-overlay", file, ...)
package defects

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Defect strikes out one rule of the protocol.
type Defect struct {
	Name  string // for a command line
	Rule  string // the rule that no longer holds
	Edits []Edit // what makes the defect, applied in this order
}

// An Edit replaces a text that occurs exactly once in a file.
type Edit struct {
	File string // from the root of the module
	Old  string // the text to be replaced
	New  string // the text in its place
}

// Names returns the names of all defects, in the order of the table.
func Names() []string {
	names := make([]string, len(All))
	for i, d := range All {
		names[i] = d.Name
	}
	return names
}

// Find returns the defect of that name.
func Find(name string) (Defect, error) {
	for _, d := range All {
		if d.Name == name {
			return d, nil
		}
	}
	return Defect{}, fmt.Errorf("no defect %q: there are %s", name, strings.Join(Names(), ", "))
}

// Apply returns the edited files by their names: root is the directory of the
// module. A text that does not occur exactly once is an error, since the defect
// would no longer be what its rule says.
func (d Defect) Apply(root string) (map[string]string, error) {
	files := make(map[string]string)
	var errs []error
	for _, e := range d.Edits {
		text, seen := files[e.File]
		if !seen {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			errs = append(errs, fmt.Errorf("defect %s: %q occurs %d times in %s, want once", d.Name, e.Old, n, e.File))
			continue
		}
		files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return files, errors.Join(errs...)
}

// Overlay writes the edited files, and the file for go build's -overlay, to the
// directory dir, and returns the latter's name. root is the directory of the module.
func (d Defect) Overlay(root, dir string) (string, error) {
	files, err := d.Apply(root)
	if err != nil {
		return "", err
	}
	return WriteOverlay(root, dir, files)
}

// WriteOverlay writes files, by their names from the directory root, and the file for go build's -overlay, to the
// directory dir, and returns the latter's name.
func WriteOverlay(root, dir string, files map[string]string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for file, text := range files {
		edited := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, file)] = edited
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, b, 0o600)
}
