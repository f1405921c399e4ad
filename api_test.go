package redlock_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the API as it is to testdata/api.txt and testdata/redlocktest.txt")

// TestTheAPIIsTheOneListed compares the exported names with a list, so that every change of the API is visible in
// a commit.
func TestTheAPIIsTheOneListed(t *testing.T) {
	for dir, list := range map[string]string{".": "testdata/api.txt", "redlocktest": "testdata/redlocktest.txt"} {
		got := api(t, dir)
		if *update {
			if err := os.WriteFile(list, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		is, was := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for _, line := range is {
			if !slices.Contains(was, line) {
				t.Errorf("%s lacks: %s", list, line)
			}
		}
		for _, line := range was {
			if !slices.Contains(is, line) {
				t.Errorf("%s lists what is not there: %s", list, line)
			}
		}
	}
	if t.Failed() {
		t.Log("If the change is wanted, say so in CHANGELOG.md, and run: go test -run TheAPI . -update")
	}
}

// api returns a line for each exported name of the package in dir, and for each exported field.
func api(t *testing.T, dir string) string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, dir+"/"+name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, module+"/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	text := func(node any) string {
		var b bytes.Buffer
		if err := format.Node(&b, fset, node); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			for _, name := range v.Names {
				if ast.IsExported(name) {
					lines = append(lines, v.Decl.Tok.String()+" "+name)
				}
			}
		}
	}
	funcs := func(fs []*doc.Func) {
		for _, f := range fs {
			f.Decl.Body, f.Decl.Doc = nil, nil
			lines = append(lines, text(f.Decl))
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		spec := typ.Decl.Specs[0].(*ast.TypeSpec)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			spec.Doc, spec.Comment = nil, nil
			lines = append(lines, "type "+typ.Name+" "+text(spec.Type))
			continue
		}
		lines = append(lines, "type "+typ.Name+" struct")
		for _, field := range s.Fields.List {
			for _, name := range field.Names {
				if name.IsExported() {
					lines = append(lines, "type "+typ.Name+" struct, "+name.Name+" "+text(field.Type))
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
