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
		"return 1 → ",
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
	for _, target := range targets {
		mutants, err := mutantsOf(target.file)
		if err != nil || len(mutants) < 2 {
			t.Errorf("%s has %d mutants: %v", target.file, len(mutants), err)
		}
		bad := 0
		for i := range mutants {
			if strings.HasSuffix(target.file, ".lua") && !mutants[i].compiles() {
				t.Logf("%v cannot be loaded", mutants[i])
				bad++
			}
		}
		if bad*10 > len(mutants) {
			t.Errorf("%d of %d mutants of %s cannot be loaded", bad, len(mutants), target.file)
		}
	}
}

func TestAMutantIsNoticedSurvivesOrDoesNotBuild(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("internal/quorum/tally.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, old, by string
		want          fate
	}{
		{"no majority", "return n/2 + 1", "return n / 2", caught},
		{"nothing", "return n/2 + 1", "return 1 + n/2", lives},
		{"nonsense", "return n/2 + 1", "return nonsense", noBuild},
	} {
		at := strings.Index(string(text), row.old)
		if at < 0 {
			t.Fatalf("%q is not there", row.old)
		}
		j := job{mutant{"internal/quorum/tally.go", string(text), at, at + len(row.old), row.by}, []step{{"./internal/quorum", "Tally"}}}
		if got, err := j.try(&programs{dir: t.TempDir()}, time.Minute); got != row.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", row.name, got, err, row.want)
		}
	}
}
