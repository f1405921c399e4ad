package defects

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/programs"
)

const root = "../.."

func TestEveryDefectFindsItsText(t *testing.T) {
	for _, d := range All {
		files, err := d.Apply(root)
		if err != nil {
			t.Error(err)
		}
		if len(files) == 0 || d.Rule == "" {
			t.Errorf("defect %s changes %d files and breaks the rule %q, want both", d.Name, len(files), d.Rule)
		}
		if found, err := Find(d.Name); err != nil || found.Rule != d.Rule {
			t.Errorf("Find(%q) = %q, %v, want this one", d.Name, found.Rule, err)
		}
	}
}

// TestTheDefectsBuild compiles the library with all defects at once.
func TestTheDefectsBuild(t *testing.T) {
	all := Defect{Name: "all"}
	for _, d := range All {
		all.Edits = append(all.Edits, d.Edits...)
	}
	file, err := all.Overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build := programs.Command(t, "go", "build", "-overlay", file, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestATextThatIsNotThereOnceIsAnError(t *testing.T) {
	for _, old := range []string{"no such text", "return"} {
		d := Defect{Name: "test", Edits: []Edit{{File: "internal/defects/defects.go", Old: old}}}
		if _, err := d.Apply(root); err == nil || !strings.Contains(err.Error(), "want once") {
			t.Errorf("Apply with %q = %v, want an error that counts it", old, err)
		}
	}
	if _, err := Find("none"); err == nil || !strings.Contains(err.Error(), "guard-off") {
		t.Errorf("Find of an unknown name = %v, want an error that lists the names", err)
	}
}
