package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/redlock-go/redlock/internal/defects"
)

// buildDefect builds this program with a defect in the library, and returns its path.
// The working directory must be lab/nemesis.
func buildDefect(name, dir string) (string, error) {
	d, err := defects.Find(name)
	if err != nil {
		return "", err
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/redlock-go/redlock").Output()
	if err != nil {
		return "", fmt.Errorf("-defect needs the go command, and lab/nemesis as the working directory: %w", err)
	}
	overlay, err := d.Overlay(strings.TrimSpace(string(root)), dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "nemesis-with-"+name)
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building with the defect %s: %w\n%s", name, err, out)
	}
	return program, nil
}
