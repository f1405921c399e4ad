package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheSpecificationParses checks the syntax of the TLA+ module, and that the parser refuses
// what is none.
func TestTheSpecificationParses(t *testing.T) {
	node := needNode(t)
	module := "../docs/spec/Redlock.tla"
	if out, err := exec.Command(node, "parse.mjs", module).CombinedOutput(); err != nil {
		t.Errorf("%s does not parse: %v\n%s", module, err, out)
	}
	text, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "Redlock.tla")
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), "THEN", "THEN THEN", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(node, "parse.mjs", broken).CombinedOutput(); err == nil {
		t.Errorf("a module that is broken parses: %s", out)
	}
}
