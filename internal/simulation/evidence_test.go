package simulation

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/defects"
	"github.com/redlock-go/redlock/internal/programs"
)

const evidence = "../../docs/evidence.md"

// words returns a text with single spaces, and without the marks of comments, quotations and links.
func words(text string) string {
	text = regexp.MustCompile(`(?m)^(//|>)`).ReplaceAllString(text, " ")
	return strings.Join(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(text)), " ")
}

// TestTheEvidenceQuotesTheDocumentation compares the claims in docs/evidence.md with doc.go.
func TestTheEvidenceQuotesTheDocumentation(t *testing.T) {
	page, doc := read(t, evidence), words(read(t, "../../doc.go"))
	claims := 0
	for _, quote := range regexp.MustCompile(`(?m)(^>.*\n)+`).FindAllString(page, -1) {
		for _, claim := range strings.Split(quote, "\n>\n") {
			claims++
			if !strings.Contains(doc, words(claim)) {
				t.Errorf("doc.go does not say: %s", words(claim))
			}
		}
	}
	if claims < 4 {
		t.Errorf("%d claims are quoted, want some", claims)
	}
}

// TestTheEvidenceListsEveryDefect compares the table of seeded defects with package defects, and their number with
// docs/evidence.md.
func TestTheEvidenceListsEveryDefect(t *testing.T) {
	table := read(t, "defects/README.md")
	for _, d := range defects.All {
		if !strings.Contains(table, "| "+d.Name+" | "+d.Rule+" |") {
			t.Errorf("defects/README.md does not list %s: %s", d.Name, d.Rule)
		}
	}
	n := strconv.Itoa(len(defects.All))
	if rows := strings.Count(table, "\n| ") - 1; rows != len(defects.All) {
		t.Errorf("defects/README.md lists %d defects, and there are %s", rows, n)
	}
	if !strings.Contains(read(t, evidence), "["+n+" defects](../internal/simulation/defects/README.md)") {
		t.Errorf("docs/evidence.md does not say that there are %s defects", n)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheTrackRecordIsComplete checks that .ci/again.md shows each defect of docs/track-record.md again once, with tests,
// seeded defects and commits that exist.
func TestTheTrackRecordIsComplete(t *testing.T) {
	list, again := read(t, "../../docs/track-record.md"), read(t, "../../.ci/again.md")
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`)
	shown := make(map[string]string)
	for _, r := range row.FindAllStringSubmatch(again, -1) {
		if shown[r[1]] != "" {
			t.Errorf("defect %s is shown twice", r[1])
		}
		shown[r[1]] = r[2]
	}
	rows := row.FindAllStringSubmatch(list, -1)
	for i, r := range rows {
		if want := strconv.Itoa(i + 1); r[1] != want {
			t.Errorf("defect %s is in the place of %s", r[1], want)
		}
		if strings.Count(r[2], " | ") != 4 {
			t.Errorf("defect %s has %d cells, want 5", r[1], 1+strings.Count(r[2], " | "))
		}
		if shown[r[1]] == "" {
			t.Errorf("defect %s is not shown again", r[1])
		}
	}
	if len(rows) < 50 || len(shown) != len(rows) {
		t.Errorf("%d defects are listed, and %d shown again", len(rows), len(shown))
	}
	known := tests(t)
	byCommit := regexp.MustCompile(`\.ci/again (\S+) (\S+) \S+ (Test\w+)`)
	for id, text := range shown {
		if m := regexp.MustCompile(`internal/simulation/defects ([a-z-]+)`).FindStringSubmatch(text); m != nil {
			if !slices.ContainsFunc(defects.All, func(d defects.Defect) bool { return d.Name == m[1] }) {
				t.Errorf("defect %s: there is no seeded defect %s", id, m[1])
			}
			continue
		}
		if byCommit.MatchString(text) {
			continue // see below
		}
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("defect %s: there is no %s", id, name)
			}
		}
	}
	t.Run("commits", func(t *testing.T) {
		if !programs.WholeHistory(t) {
			return
		}
		for id, text := range shown {
			if m := byCommit.FindStringSubmatch(text); m != nil {
				if err := programs.Command(t, "git", "grep", "-qE", "^func "+m[3]+`\(`, m[2], "--", ":/*_test.go").Run(); err != nil {
					t.Errorf("defect %s: %s is not in %s: %v", id, m[3], m[2], err)
				}
			}
		}
	})
}

// tests returns the names of all tests.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	head := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, m := range head.FindAllStringSubmatch(read(t, path), -1) {
				known[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}
