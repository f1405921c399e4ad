package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	out, _ := runCommandLine(t, exitOK, "", "--version")
	if !strings.HasPrefix(out, "redlock version ") || !strings.Contains(out, runtime.Version()) {
		t.Errorf("--version prints %q", out)
	}
	system := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	for _, tt := range []struct {
		name, version, revision, modified, want string
	}{
		{"installed", "v0.1.0", "", "", "v0.1.0 (" + system + ")"},
		{"built in a repository", "(devel)", "0123456789abcdef", "false", "devel (" + system + ", commit 0123456789ab)"},
		{"built with changes", "(devel)", "0123456789abcdef", "true", "devel (" + system + ", commit 0123456789ab with changes)"},
		{"built by a file's name", "", "", "", "unknown (" + system + ")"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Version: tt.version}}
			if tt.revision != "" {
				info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: tt.revision}, {Key: "vcs.modified", Value: tt.modified}}
			}
			if got := versionOf(info); got != tt.want {
				t.Errorf("versionOf = %q, want %q", got, tt.want)
			}
		})
	}
}

// A shell that completes the arguments of a command must not run it.
func TestCompletionRunsNothing(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	file := filepath.Join(t.TempDir(), "made")
	out, errOut := runCommandLine(t, exitUsage, "", "run", "--masters", masters, "n", "--", "touch", file, completionFlag)
	if _, err := os.Stat(file); err == nil || out != "" {
		t.Errorf("completion has run the command, or printed %q", out)
	}
	want(t, errOut, completionFlag, "COMMAND was not run") // somebody may have meant the argument
	out, _ = runCommandLine(t, exitOK, "", "completion", "bash")
	want(t, out, "redlock", completionFlag)
}
