package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// version returns the version of this program, by its build information: of the module if it was
// installed by go install, else of the commit if it was built in a repository.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := cmp.Or(strings.Trim(info.Main.Version, "()"), "unknown")
	about := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if revision := settings["vcs.revision"]; revision != "" {
		if len(revision) > 12 {
			revision = revision[:12]
		}
		if settings["vcs.modified"] == "true" {
			revision += " with changes"
		}
		about = append(about, "commit "+revision)
	}
	return text + " (" + strings.Join(about, ", ") + ")"
}
