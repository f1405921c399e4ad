package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutantsOfText returns how the mutants of a text differ from it.
func mutantsOfText(t *testing.T, name, text string) (all []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mutants, err := mutantsOf(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		before, after := m.lines()
		all = append(all, before+" → "+after)
	}
	return all
}

func TestTheMutantsOfAScript(t *testing.T) {
	got := mutantsOfText(t, "a.lua", `-- if a == b then
local x = redis.call('GET', key) -- x
if x and x <= now() - (y or 1) then
  redis.call('SET', key, 'a == b',
    'PX', ttl)
elseif x then
  x, y = 1, n == 1 and
    2
end
return {
  f(x)
}
`)
	want := []string{
		"if x and x <= now() - (y or 1) then → if x <= now() - (y or 1) then",
		"if x and x <= now() - (y or 1) then → if x then",
		"if x and x <= now() - (y or 1) then → if x and x > now() - (y or 1) then",
		"if x and x <= now() - (y or 1) then → if x and x <= now() - (1) then",
		"if x and x <= now() - (y or 1) then → if x and x <= now() - (y) then",
		"redis.call('SET', key, 'a == b', 'PX', ttl) → ",
		"elseif x then → elseif not (x) then",
		"x, y = 1, n == 1 and 2 → ",
		"x, y = 1, n == 1 and → x, y = 1, n != 1 and",
		"x, y = 1, n == 1 and 2 → x, y = 1, 2",
		"x, y = 1, n == 1 and 2 → x, y = 1, n == 1",
		"return { f(x) } → ",
	}
	want[8] = strings.Replace(want[8], "!=", "~=", 1)
	if !slices.Equal(got, want) {
		t.Errorf("the mutants are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheMutantsOfAGoFile(t *testing.T) {
	got := mutantsOfText(t, "a.go", `package a

func f() int {
	x := 1
	for x < 5 {
		x++
	}
	if x == 5 && ok || g(x) {
		s.x = 7
		return 2
	}
	if !ok {
		g(x)
	}
	return 1
}
`)
	want := []string{
		"x++ → ",
		"if x == 5 && ok || g(x) { → if g(x) {",
		"if x == 5 && ok || g(x) { → if x == 5 && ok {",
		"if x == 5 && ok || g(x) { → if ok || g(x) {",
		"if x == 5 && ok || g(x) { → if x == 5 || g(x) {",
		"if x == 5 && ok || g(x) { → if x != 5 && ok || g(x) {",
		"s.x = 7 → ",
		"return 2 → ",
		"if !ok { → if !(!ok) {",
		"g(x) → ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the mutants are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryTargetHasMutants(t *testing.T) {
	t.Chdir("../..")
	for _, file := range complete {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.file == file }) {
			t.Errorf("%s is complete, and is no target", file)
		}
	}
	for _, target := range targets {
		mutants, err := mutantsOf(target.file)
		if err != nil || len(mutants) < 2 {
			t.Errorf("%s has %d mutants: %v", target.file, len(mutants), err)
		}
		bad := 0
		for i := range mutants {
			if strings.HasSuffix(target.file, ".lua") && !mutants[i].loads() {
				t.Logf("%v cannot be loaded", mutants[i])
				bad++
			}
		}
		if bad*10 > len(mutants) {
			t.Errorf("%d of %d mutants of %s cannot be loaded", bad, len(mutants), target.file)
		}
	}
}

func TestWhatEndsAFunctionIsNotRemoved(t *testing.T) {
	got := mutantsOfText(t, "a.go", `package a

func f() int {
	switch {
	case ok:
		return 1
	case no:
		g()
		fallthrough
	default:
		if x := func() int { return 2 }; ok {
			return 3
		} else {
			panic("no")
		}
	}
}

func g() {
	for {
		if ok {
			return
		}
	}
}
`)
	want := []string{"g() → ", "if x := func() int { return 2 }; ok { → if x := func() int { return 2 }; !(ok) {", "if ok { → if !(ok) {", "return → "}
	if !slices.Equal(got, want) {
		t.Errorf("the mutants are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A file with all its mutants does what it did, and each mutant can be switched on.
func TestMutantsAreSwitchedOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(file, []byte(`package a

func f() int {
	if x == 5 && ok() {
		g(
			x,
		)
		return 2
	}
	return 1
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	mutants, err := mutantsOf(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*mutant
	for i := range mutants {
		mutants[i].number = i + 1
		all = append(all, &mutants[i])
	}
	got := switched(all)
	want := `package a

func f() int {
	if (mutantIs(1) || (((x == 5) != mutantIs(3)))) && (mutantIs(2) || (ok())) {
		if !mutantIs(4) { g(
			x,
		) }
		if !mutantIs(5) { return 2 }
	}
	return 1
}
`
	if got != want {
		t.Errorf("the file with its mutants is\n%s\nwant\n%s", got, want)
	}
}

func TestAMutantIsNoticedIsLateSurvivesOrCannotBeLoaded(t *testing.T) {
	t.Chdir("../..")
	const file, script, flagged = "internal/quorum/tally.go", "internal/wire/flight.lua", "internal/wire/set.lua"
	of := func(file, old, by string, before, after string) *job {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(text), old)
		if at < 0 {
			t.Fatalf("%q is not in %s", old, file)
		}
		end := at + len(old)
		steps := []step{{"./internal/quorum", "Tally"}}
		switch file {
		case script:
			steps = []step{{"./internal/wire", "Value"}}
		case flagged:
			steps = []step{{"./internal/wire", "ScriptsName"}}
		}
		return &job{mutant{file: file, text: string(text), change: change{at, end, by, wrap{at, end, before, after}}}, steps}
	}
	const majority = "n/2 + 1"
	rows := []struct {
		name string
		job  *job
		want fate
	}{
		{"no majority", of(file, majority, "", "map[bool]int{true: n / 2, false: (", ")}["+on+"]"), caught},
		{"nothing", of(file, majority, "", "map[bool]int{true: 1 + n / 2, false: (", ")}["+on+"]"), lives},
		{"a function that does not return", of(file, majority, "", "func() int { for "+on+" {}; return ", " }()"), late},
		{"a script without an answer", of(script, "return", "-- return", "", ""), caught},
		{"a script with flags", of(flagged, "return", "return ", "", ""), lives},
		{"nonsense", of(script, "return", "turn back", "", ""), noBuild},
	}
	var jobs []*job
	for i, row := range rows {
		row.job.number = i + 1
		jobs = append(jobs, row.job)
	}
	tests, err := newTests(t.TempDir(), jobs, time.Minute, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if tests.slack = 20 * time.Second; row.want == late { // a busy machine takes long for the others
			tests.slack = time.Second
		}
		if got, by, err := tests.try(row.job); got != row.want || err != nil {
			t.Errorf("%s: %d by %s, %v; want %d", row.name, got, by, err, row.want)
		}
	}
}
