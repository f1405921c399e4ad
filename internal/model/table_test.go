package model

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// row matches a row of the table of rules in docs/rules.md.
var row = regexp.MustCompile("^\\| `(\\w+)` \\| .* \\| ([^|]*) \\| ([^|]*) \\|$")

// TestTheTableOfRulesNamesTheCode checks the table of rules. Each rule of the three models must have a row.
// Each function that keeps a rule must exist. The steps to each counterexample of this package must be those
// that the package finds.
func TestTheTableOfRulesNamesTheCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := functionsOf(t, "../..", "../engine", "../bounds", "../waits", "../master", "../guard", "../wire", "../incarnation", "../quorum", "../fence", "../turns", "../gate", "../renew")
	rows := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		rule, steps, keepers := m[1], strings.TrimSpace(m[2]), regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[3], -1)
		rows[rule] = true
		if len(keepers) == 0 {
			t.Errorf("no function keeps %s", rule)
		}
		for _, k := range keepers {
			if !functions[k[1]] {
				t.Errorf("%s is said to be kept by %s, which does not exist", rule, k[1])
			}
		}
		if want := stepsTo(rule); want != "" && steps != want {
			t.Errorf("%s: %q, want %q", rule, steps, want)
		}
	}
	for _, dir := range []string{".", "agree", "names"} {
		rules := rulesOf(t, dir)
		if len(rules) == 0 {
			t.Errorf("no rules in %s", dir)
		}
		for _, rule := range rules {
			if !rows[rule] {
				t.Errorf("the rule %s of %s has no row", rule, dir)
			}
			delete(rows, rule)
		}
	}
	for rule := range rows {
		t.Errorf("the row %s is no rule of a model", rule)
	}
}

// TestEachRuleOfTheModelsIsStruckOut finds rules of all models that no test switches off.
func TestEachRuleOfTheModelsIsStruckOut(t *testing.T) {
	dirs, models := map[string]bool{}, 0
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		dirs[filepath.Dir(path)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range dirs {
		rules, off := rulesOf(t, dir), make(map[string]bool)
		if len(rules) > 0 {
			models++
		}
		for _, file := range files(t, dir, "*_test.go") {
			ast.Inspect(file, func(n ast.Node) bool {
				if e, ok := n.(*ast.KeyValueExpr); ok && fmt.Sprint(e.Value) == "true" {
					off[fmt.Sprint(e.Key)] = true
				}
				return true
			})
		}
		for _, rule := range rules {
			if !off[rule] {
				t.Errorf("%s: no test switches off %s", dir, rule)
			}
		}
	}
	if models < 10 {
		t.Errorf("%d models with rules were found", models)
	}
}

// stepsTo returns, for each rule of this package, the number of steps that break a property when the rule is
// switched off.
func stepsTo(rule string) string {
	var all []string
	for _, v := range struckOut {
		if f := reflect.ValueOf(v.Off).FieldByName(rule); f.IsValid() && f.Bool() {
			all = append(all, fmt.Sprintf("%s, %d", v.Want, len(exploration(v.World, v.Off).Trace)))
		}
	}
	return strings.ToLower(strings.Join(all, "; "))
}

// rulesOf returns the fields of the type rules in a directory's tests.
func rulesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, file := range files(t, dir, "*_test.go") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "rules" {
				return true
			}
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, id := range f.Names {
					names = append(names, id.Name)
				}
			}
			return false
		})
	}
	return names
}

// functionsOf returns the functions and methods of directories, as package.Function or
// package.Type.Method, and those of the scripts, as script.lua:function.
func functionsOf(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for _, dir := range dirs {
		for _, file := range files(t, dir, "*.go") {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					all[file.Name.Name+"."+receiver(f)+f.Name.Name] = true
				}
			}
		}
		scripts, _ := filepath.Glob(dir + "/*.lua")
		for _, script := range scripts {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^ *local function (\w+)`).FindAllSubmatch(text, -1) {
				all[filepath.Base(script)+":"+string(m[1])] = true
			}
		}
	}
	return all
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	return typ.(*ast.Ident).Name + "."
}

// files parses the Go files of a directory that match a pattern.
func files(t *testing.T, dir, pattern string) (all []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file)
	}
	return all
}
