package model

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The specification in docs/spec states the same protocol in TLA+. Its configurations are generated from the
// worlds and the rules of this package, and from the results that this package has found for them.

const specification = "../../docs/spec"

var write = flag.Bool("write", false, "write the configurations of docs/spec instead of comparing them")

// TestTheSpecificationHasTheModelsConfigurations compares the configurations with the worlds.
func TestTheSpecificationHasTheModelsConfigurations(t *testing.T) {
	want := make(map[string]string) // by file name
	for _, e := range holdingWorlds {
		want["holds/"+slug(e.name)+".cfg"] = configuration(e.world, rules{}, intact, e.name, exploration(e.world))
	}
	for _, v := range struckOut {
		w := v.world
		w.rules = v.rules
		want["struck/"+slug(v.name)+".cfg"] = configuration(v.world, v.rules, v.want, v.name, exploration(w))
	}
	var names []string
	for name, text := range want {
		names = append(names, name)
		if *write {
			if err := os.WriteFile(filepath.Join(specification, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(specification, name)); string(got) != text {
			t.Errorf("%s is not what the model says (%v): go test ./internal/model -run Specification -args -write", name, err)
		}
	}
	slices.Sort(names)
	there, err := filepath.Glob(specification + "/*/*.cfg")
	if err != nil || len(there) != len(names) {
		t.Errorf("%d configurations are there (%v), want %d", len(there), err, len(names))
	}
}

func slug(name string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// configuration returns the text of a configuration for TLC. Broken is the property that TLC must find
// broken.
func configuration(w world, r rules, broken property, name string, found result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\\* %s%s.\n", strings.ToUpper(name[:1]), name[1:])
	if broken == intact {
		fmt.Fprintf(&b, "\\* The model in Go has explored %d states of it: %s.\n", found.states, found.broken)
	} else {
		fmt.Fprintf(&b, "\\* The model in Go finds after %d steps: %s.\n", len(found.trace), found.broken)
	}
	b.WriteString("SPECIFICATION Spec\nSYMMETRY Symmetry\nCHECK_DEADLOCK FALSE\n")
	for _, p := range properties {
		if broken == intact || p.property == broken {
			fmt.Fprintf(&b, "INVARIANT %s\n", p.name)
		}
	}
	b.WriteString("CONSTANTS\n    Masters = {m1, m2, m3}\n    Clients = {c1, c2}\n    Free = Free\n    Orphan = Orphan\n")
	v := reflect.ValueOf(w)
	for i := range v.NumField() {
		switch f := v.Type().Field(i); f.Type.Kind() {
		case reflect.Int:
			fmt.Fprintf(&b, "    %s = %d\n", exported(f.Name), v.Field(i).Int())
		case reflect.Uint8:
			fmt.Fprintf(&b, "    %s = %d\n", exported(f.Name), max(v.Field(i).Uint(), 0))
		case reflect.Bool:
			fmt.Fprintf(&b, "    %s = %s\n", exported(f.Name), strings.ToUpper(strconv.FormatBool(v.Field(i).Bool())))
		}
	}
	v = reflect.ValueOf(r)
	for i := range v.NumField() {
		fmt.Fprintf(&b, "    %s = %s\n", exported(v.Type().Field(i).Name), strings.ToUpper(strconv.FormatBool(v.Field(i).Bool())))
	}
	return b.String()
}

var properties = []struct {
	property property
	name     string
}{{oneHolder, "OneHolder"}, {risingFences, "RisingFences"}, {honestLoss, "HonestLoss"}, {nothingLeft, "NothingLeft"}}

func exported(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// TestTheSpecificationNamesTheModelsConstants compares the constants of the module with the
// fields of world and rules.
func TestTheSpecificationNamesTheModelsConstants(t *testing.T) {
	text, err := os.ReadFile(specification + "/Redlock.tla")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)\nCONSTANTS\n(.*?)\n\n`).FindSubmatch(text)
	if block == nil {
		t.Fatal("the module has no constants")
	}
	declared := regexp.MustCompile(`\\\*[^\n]*`).ReplaceAllString(string(block[1]), "")
	got := regexp.MustCompile(`\w+`).FindAllString(declared, -1)
	want := []string{"Masters", "Clients", "Free", "Orphan"}
	for _, v := range []reflect.Type{reflect.TypeFor[world](), reflect.TypeFor[rules]()} {
		for i := range v.NumField() {
			if !v.Field(i).Anonymous {
				want = append(want, exported(v.Field(i).Name))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the constants are\n%v, want\n%v", got, want)
	}
	for _, name := range want {
		if n := len(regexp.MustCompile(`\b`+name+`\b`).FindAll(text, -1)); n < 2 {
			t.Errorf("the constant %s is not used", name)
		}
	}
}

// row matches a row of the table of rules in docs/spec/README.md.
var row = regexp.MustCompile("^\\| `(\\w+)` \\| .* \\| ([^|]*) \\| ([^|]*) \\|$")

// TestTheTableOfRulesNamesTheCode checks the table of rules. Each rule of the four models must have a row.
// Each function that keeps a rule must exist. The steps to each counterexample of this package must be those
// that the package finds.
func TestTheTableOfRulesNamesTheCode(t *testing.T) {
	text, err := os.ReadFile(specification + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := functionsOf(t, "../..", "../master", "../incarnation", "../quorum", "../gate")
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
	for _, dir := range []string{".", "waiting", "agree", "names"} {
		for _, rule := range rulesOf(t, dir) {
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

// stepsTo returns, for each rule of this package, the number of steps that break a property when the rule is
// switched off.
func stepsTo(rule string) string {
	var all []string
	for _, v := range struckOut {
		if f := reflect.ValueOf(v.rules).FieldByName(rule); f.IsValid() && f.Bool() {
			w := v.world
			w.rules = v.rules
			all = append(all, fmt.Sprintf("%s, %d", v.want, len(exploration(w).trace)))
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
	if len(names) == 0 {
		t.Fatalf("no rules in %s", dir)
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
			for _, m := range regexp.MustCompile(`(?m)^local function (\w+)`).FindAllSubmatch(text, -1) {
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
