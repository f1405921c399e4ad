package simulation

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/defects"
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

// TestTheEvidenceListsEveryDefect compares the table of seeded defects with package defects.
func TestTheEvidenceListsEveryDefect(t *testing.T) {
	page := read(t, evidence)
	for _, d := range defects.All {
		if !strings.Contains(page, "| "+d.Name+" | "+d.Rule+" |") {
			t.Errorf("docs/evidence.md does not list %s: %s", d.Name, d.Rule)
		}
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
