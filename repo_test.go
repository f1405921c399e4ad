package redlock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/usermodule"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests check rules of the repository.

const module = "github.com/redlock-go/redlock"

// goFiles calls f for each Go file of the module, except tests.
func goFiles(t *testing.T, f func(path string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || exists(filepath.Join(path, "go.mod"))):
			return filepath.SkipDir // hidden, or a module of its own
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		f(path, file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestPackagesImportOnlyPackagesBelowThem(t *testing.T) {
	const redigo = "github.com/gomodule/redigo/redis"
	const backoff = "github.com/cenkalti/backoff/v4"
	may := map[string][]string{
		".":                    {"internal/engine", "internal/bounds", "internal/flight", "internal/quorum", "internal/master", "internal/guard", "internal/wire", "internal/holding", "internal/clock", "internal/waits", "internal/notices", "internal/reasons", "internal/redisconn", "internal/masterurl", redigo},
		"internal/engine":      {"internal/leasectx", "internal/bounds", "internal/calls", "internal/gate", "internal/quorum", "internal/fence", "internal/flight", "internal/turns", "internal/master", "internal/guard", "internal/wire", "internal/holding", "internal/clock", "internal/renew", "internal/waits", "internal/notices", "internal/reasons", "internal/recent", "internal/occupancy", "internal/weakmap", redigo},
		"internal/leasectx":    {},
		"internal/bounds":      {"internal/master", "internal/quorum", "internal/wire"},
		"internal/calls":       {},
		"internal/gate":        {},
		"internal/waits":       {"internal/master", "internal/wire", "internal/quorum", "internal/clock", "internal/recent"},
		"internal/fence":       {"internal/bounds", "internal/clock", "internal/master", "internal/wire", "internal/quorum", "internal/recent"},
		"internal/flight":      {},
		"internal/turns":       {"internal/master", "internal/wire", "internal/recent"},
		"internal/recent":      {},
		"internal/occupancy":   {},
		"internal/weakmap":     {},
		"internal/notices":     {"internal/master", "internal/guard", "internal/quorum", "internal/incarnation", "internal/reasons", "internal/recent", "internal/remedy"},
		"internal/reasons":     {"internal/guard", "internal/quorum", "internal/wire", "internal/redisconn", "internal/remedy"},
		"internal/clock":       {},
		"internal/renew":       {"internal/clock", "internal/quorum", "internal/wire"},
		"internal/quorum":      {"internal/master", "internal/wire"},
		"internal/holding":     {"internal/wire", "internal/quorum", "internal/recent"},
		"internal/master":      {"internal/guard", "internal/wire", "internal/incarnation", "internal/clock", "internal/redisconn", "internal/remedy", "internal/fifo", redigo},
		"internal/guard":       {"internal/wire", "internal/incarnation", "internal/clock", "internal/redisconn", "internal/remedy", "internal/fifo", redigo},
		"internal/fifo":        {},
		"internal/wire":        {"internal/redisconn", redigo},
		"internal/redisconn":   {redigo},
		"internal/incarnation": {"internal/clock", redigo},
		"internal/remedy":      {"internal/masterurl", "internal/redisconn", redigo},
		"internal/masterurl":   {"internal/redisconn", redigo},
	}
	seen := make(map[string]bool)
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet) {
		allowed, ruled := may[filepath.ToSlash(filepath.Dir(path))]
		if !ruled {
			return
		}
		seen[filepath.ToSlash(filepath.Dir(path))] = true
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			name = strings.TrimPrefix(name, module+"/")
			if !strings.Contains(name, ".") && !strings.HasPrefix(name, "internal/") {
				continue // the standard library
			}
			if path == "backoff.go" && name == backoff {
				continue // only this package may import it
			}
			if !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s, which is not below it", path, name)
			}
		}
	})
	for dir := range may {
		if !seen[dir] {
			t.Errorf("no Go file in %s: the rule has lost its subject", dir)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	documented := 0
	goFiles(t, func(path string, file *ast.File, fset *token.FileSet) {
		if file.Name.Name == "main" {
			return
		}
		for _, decl := range file.Decls {
			for name, doc := range exported(decl) {
				documented++
				if doc == "" {
					t.Errorf("%s: %s has no comment", fset.Position(decl.Pos()), name)
				}
			}
		}
	})
	if documented < 50 {
		t.Errorf("only %d exported names were seen", documented)
	}
}

// exported returns the exported names that a declaration makes and their
// comments.
func exported(decl ast.Decl) map[string]string {
	names := make(map[string]string)
	add := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		if !id.IsExported() {
			return
		}
		names[id.Name] = ""
		for _, doc := range docs {
			names[id.Name] += doc.Text()
		}
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || ast.IsExported(receiver(d)) {
			add(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				add(s.Name, d.Doc, s.Doc)
				addFields(add, s)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					add(id, d.Doc, s.Doc, s.Comment)
				}
			}
		}
	}
	for _, usual := range []string{"Error", "String", "Unwrap", "Is", "Network", "Answered"} {
		if doc, ok := names[usual]; ok && doc == "" {
			delete(names, usual) // a method of a well-known interface needs no comment
		}
	}
	return names
}

func addFields(add func(*ast.Ident, ...*ast.CommentGroup), s *ast.TypeSpec) {
	fields, ok := s.Type.(*ast.StructType)
	if !ok || !s.Name.IsExported() {
		return
	}
	var lead *ast.CommentGroup // a comment may describe several fields that follow it directly
	for _, f := range fields.Fields.List {
		if f.Doc != nil || f.Comment != nil {
			lead = f.Doc
		}
		for _, id := range f.Names {
			add(id, f.Doc, f.Comment, lead)
		}
	}
}

func receiver(d *ast.FuncDecl) string {
	switch r := d.Recv.List[0].Type.(type) {
	case *ast.Ident:
		return r.Name
	case *ast.StarExpr:
		if id, ok := r.X.(*ast.Ident); ok {
			return id.Name
		}
	}
	return "?"
}

// TestTestsStartProgramsByOneHelper checks that only internal/programs starts external programs for tests, in all modules: it
// decides what a missing program means. A test may run its own binary, os.Args[0], by other means.
func TestTestsStartProgramsByOneHelper(t *testing.T) {
	fset, files := token.NewFileSet(), 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		helps := slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing"` })
		if filepath.ToSlash(path) == "internal/programs/programs.go" || !helps && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && startsProgram(call) {
				t.Errorf("%s starts a program by itself: call internal/programs, or internal/redisserver for servers", fset.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files with tests read: %v", files, err)
	}
}

// startsProgram reports whether a call starts or looks up a program other than the binary of the test.
func startsProgram(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := f.X.(*ast.Ident)
	if !ok {
		return false
	}
	program := 0 // which argument names it
	switch of.Name + "." + f.Sel.Name {
	case "exec.LookPath", "redisserver.Start":
		return true
	case "exec.CommandContext":
		program = 1
	case "exec.Command", "os.StartProcess", "syscall.Exec", "syscall.ForkExec", "syscall.StartProcess":
	default:
		return false
	}
	own, ok := call.Args[program].(*ast.IndexExpr)
	if !ok {
		return true
	}
	args, ok := own.X.(*ast.SelectorExpr)
	return !ok || args.Sel.Name != "Args"
}

// TestBubblesAreLimitedToOneThread checks that every bubble is made by internal/bubbletest. Other bubbles may
// crash the process under the race detector.
func TestBubblesAreLimitedToOneThread(t *testing.T) {
	tests, direct := 0, regexp.MustCompile(`synctest\.Test\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || path == "repo_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		tests++
		if direct.Match(text) {
			t.Errorf("%s calls synctest.Test: call bubbletest.Test instead", path)
		}
		return err
	})
	if err != nil || tests == 0 {
		t.Fatalf("%d test files read: %v", tests, err)
	}
}

func TestThePackageIsDescribedOnce(t *testing.T) {
	described := make(map[string][]string)
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet) {
		if file.Doc != nil {
			dir := filepath.Dir(path)
			described[dir] = append(described[dir], path)
		}
	})
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet) {
		if where := described[filepath.Dir(path)]; len(where) != 1 {
			t.Errorf("package comment of %s: in %q, want it in one file", filepath.Dir(path), where)
		}
	})
}

// TestTheReadmesProgramIsTheExample compares the program in the README with the example that is compiled.
func TestTheReadmesProgramIsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if program == nil {
		t.Fatal("the README has no program")
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	got := body(t, string(program[1]), "func main() {")
	want := body(t, string(example), "func Example() {")
	if got != want {
		t.Errorf("the README's program:\n%s\nthe example:\n%s", got, want)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "README.go", program[1], parser.AllErrors); err != nil {
		t.Errorf("the README's program: %v", err)
	}
}

// TestTheReadmesProgramRuns runs the program of the README, by its example, on embedded masters.
func TestTheReadmesProgramRuns(t *testing.T) {
	t.Setenv("REDLOCK_MASTERS", strings.Join(redlocktest.Start(t).URLs(), ","))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	stdout := os.Stdout
	os.Stdout = write
	defer func() { os.Stdout = stdout }()
	Example() // it ends the process if it fails
	write.Close()
	if got, err := io.ReadAll(read); err != nil || string(got) != "nobody else, on any machine, is in here\n" {
		t.Errorf("the program prints %q, %v", got, err)
	}
}

// TestTheReadmesProgramBuildsInAModuleOfItsOwn replaces the module by a checkout, as docs/support.md says.
func TestTheReadmesProgramBuildsInAModuleOfItsOwn(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	support, err := os.ReadFile("docs/support.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	usermodule.Build(t, support, 2, ".", string(program[1]))
}

// body returns the lines between head and the closing brace of its function.
func body(t *testing.T, text, head string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, head+"\n")
	if !ok {
		t.Fatalf("there is no %s", head)
	}
	inside, _, _ := strings.Cut(rest, "\n}")
	return inside
}

// TestTheReadingOrderCoversTheRoot checks that docs/design.md names each file of the root, and no other.
func TestTheReadingOrderCoversTheRoot(t *testing.T) {
	text, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, order, _ := strings.Cut(string(text), "## Start here")
	order, _, _ = strings.Cut(order, "\n## ")
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && !strings.Contains(order, "`"+file+"`") {
			t.Errorf("the reading order does not name %s", file)
		}
	}
	named := regexp.MustCompile("`([\\w/]+\\.(?:go|lua|md))`").FindAllStringSubmatch(order, -1)
	for _, m := range named {
		if !exists(m[1]) && !exists(filepath.Join("docs", m[1])) && !exists(filepath.Join("internal", m[1])) && !exists(filepath.Join("internal/master", m[1])) {
			t.Errorf("the reading order names %s, which does not exist", m[1])
		}
	}
}

// TestTheTableOfKindsIsComplete compares the table in the comment on kind with the methods of the kinds.
func TestTheTableOfKindsIsComplete(t *testing.T) {
	own, comment := make(map[string]bool), ""
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !strings.HasPrefix(path, "internal/engine/") || d.Recv == nil {
					continue
				}
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if of, ok := of.(*ast.Ident); ok {
					own[of.Name+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				if spec, ok := d.Specs[0].(*ast.TypeSpec); ok && path == "internal/engine/locker.go" && spec.Name.Name == "kind" {
					comment = d.Doc.Text()
				}
			}
		}
	})
	_, table, _ := strings.Cut(comment, "\n\t")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	kinds := strings.Fields(rows[0])
	for _, row := range rows[1:] {
		cells := strings.Fields(row)
		if !own["mutex."+cells[0]] || len(cells) != 1+len(kinds) {
			t.Errorf("mutex has no method %s, or the row is not complete: %q", cells[0], row)
			continue
		}
		for i, kind := range kinds {
			if (cells[1+i] == "own") != own[kind+"."+cells[0]] {
				t.Errorf("the table says %q for %s of a %s", cells[1+i], cells[0], kind)
			}
		}
		delete(own, "mutex."+cells[0])
	}
	for name := range own {
		if strings.HasPrefix(name, "mutex.") {
			t.Errorf("the table has no row for %s", name)
		}
	}
}

// TestTheOperationsPageQuotesTheExample compares the code in docs/operations.md with the example that is run.
func TestTheOperationsPageQuotesTheExample(t *testing.T) {
	page, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_sets_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("the page has no code")
	}
	for _, b := range blocks {
		if !strings.Contains(string(example), string(b[1])) {
			t.Errorf("the example does not have this code:\n%s", b[1])
		}
	}
}

// documents returns the documents about this repository.
func documents(t *testing.T) (all []string) {
	t.Helper()
	for _, glob := range []string{"*.md", ".ci/*.md", ".github/*.md", "docs/*.md", "lab/*/*.md"} {
		found, err := filepath.Glob(glob)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", glob, len(found), err)
		}
		all = append(all, found...)
	}
	return all
}

// TestLinksOfTheDocumentsLead checks that the relative links of the documents lead to files, and to headings.
func TestLinksOfTheDocumentsLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):]+)\)`)
	links := 0
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			links++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if !exists(target) || anchor != "" && !slices.Contains(anchors(t, target), anchor) {
				t.Errorf("%s links to %s, which is not there", document, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links were found, want many", links)
	}
}

// TestTheDocumentsNameCommitsThatExist looks up the commits that the documents about this repository name. They must
// belong to the history of HEAD: a commit that was rebased exists only where that was done. The test needs the whole
// history: in an archive or a shallow clone it has nothing to look in.
func TestTheDocumentsNameCommitsThatExist(t *testing.T) {
	if !programs.WholeHistory(t) {
		return
	}
	commit := regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	commits := 0
	for _, document := range documents(t) {
		if document == filepath.Join("docs", "comparison.md") {
			continue // the commits there are of other repositories
		}
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, hash := range commit.FindAllString(string(text), -1) {
			if !strings.ContainsAny(hash, "abcdef") {
				continue // a number
			}
			commits++
			if out, err := programs.Command(t, "git", "merge-base", "--is-ancestor", hash, "HEAD").CombinedOutput(); err != nil {
				t.Errorf("%s names commit %s, which the history of HEAD does not contain: %v %s", document, hash, err, out)
			}
		}
	}
	if commits < 5 {
		t.Errorf("%d commits were found, want several", commits)
	}
}

// TestNothingLinksToThePlaceholder checks that no file takes the module path for the address of a site.
func TestNothingLinksToThePlaceholder(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		files++
		if strings.Contains(string(text), "https:"+"//"+module) {
			t.Errorf("%s links to https:"+"//%s, which does not exist", path, module)
		}
		return err
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files read: %v", files, err)
	}
}

// anchors returns the anchors of the headings of a document.
func anchors(t *testing.T, document string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), ""))
		all[len(all)-1] = strings.ReplaceAll(all[len(all)-1], " ", "-")
	}
	return all
}
