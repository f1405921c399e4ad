package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildCommit builds this program as it is at a commit, and returns its path. The working directory must be lab/nemesis, in a
// clone that has the commit.
func buildCommit(commit, dir string) (string, error) {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("-beside needs git, and a clone of the repository: %w", err)
	}
	tree := filepath.Join(dir, "beside")
	defer os.RemoveAll(tree)
	program := tree + "-" + strings.ReplaceAll(commit, "/", "-")
	for _, step := range []struct {
		in   string
		args []string
	}{
		{strings.TrimSpace(string(top)), []string{"git", "archive", "-o", tree + ".tar", commit}},
		{dir, []string{"mkdir", "-p", tree}},
		{dir, []string{"tar", "-x", "-f", tree + ".tar", "-C", tree}},
		{dir, []string{"rm", tree + ".tar"}},
		{"", []string{"go", "build", "-o", program, "."}},
	} {
		if step.in == "" {
			if step.in = filepath.Join(tree, "lab", "nemesis"); !isDir(step.in) {
				step.in = filepath.Join(tree, "nemesis") // where it was before
			}
		}
		cmd := exec.Command(step.args[0], step.args[1:]...)
		cmd.Dir = step.in
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("-beside %s: %s: %w\n%s", commit, strings.Join(step.args, " "), err, out)
		}
	}
	return program, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// old reports whether a client runs the program of the commit of -beside: every second one, the first of them by the seed, or all of them.
func (c config) old(client int) bool {
	return c.beside != "" && (c.allBeside || (uint64(client)+c.seed)%2 == 1)
}
