package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// ms is a moment.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

// stay returns an operation of a client that held a lock for a time.
func stay(id, name string, client int, entered, held int64) history.Operation {
	return history.Operation{ID: id, Client: client, Name: name, How: "queueing", Fence: 1<<60 + uint64(entered),
		Asked: ms(entered) - 1e5, Entered: ms(entered), Held: ms(held), Leaving: ms(held), Left: ms(held) + 1e5}
}

// hostile are names of locks that must be seen as they are.
var hostile = []string{`</script><script>document.title="hacked"</script>`, `<img/src=x/onerror=alert(1)>`, "\u202egnol", "{{.}}"}

// scene returns a page with all that can be drawn. Two clients hold the lock of the first hostile name from 2500 to 3000 ms.
func scene() Page {
	ops := []history.Operation{
		stay("0.0.0.1", hostile[0], 0, 2000, 3000), stay("1.0.0.1", hostile[0], 1, 2500, 4000),
		stay("2.0.1.1", hostile[1]+" "+hostile[2], 2, 1000, 2000), stay("2.0.2.1", hostile[3], 2, 1500, 2500),
		stay("2.0.2.2", hostile[3], 2, 19_000, 19_500),
		{ID: "3.0.0.1", Client: 3, Name: hostile[1], Asked: ms(3000), Refused: ms(3500), Err: hostile[0]},
		{ID: "3.0.1.1", Client: 3, Name: hostile[1], Asked: ms(3000)}, // killed
	}
	lost := stay("4.0.0.1", hostile[3], 4, 100, 400)
	lost.Lost, lost.Leaving, lost.Left, lost.Err = ms(1700), ms(1700), ms(1701), "lost"
	ops = append(ops, lost)
	page := Page{
		Title: "a run", Source: "of " + hostile[0], Ops: ops, Stopped: map[int][]history.Span{4: {{From: ms(300), To: ms(1600)}}},
		Faults: []Fault{
			{Name: "stopped", Client: 4, Span: history.Span{From: ms(300), To: ms(1601)}}, {Name: "cut", Client: 0, Span: history.Span{From: ms(700)}},
			{Name: "restart", Client: -1, Masters: []int{0, 2}, Span: history.Span{From: ms(900), To: ms(1100)}},
		},
		Facts: [][2]string{{"locks held", "5"}}, Table: [][]string{{"CLIENTS", "HELD"}, {"queueing", "5"}}, Counted: "faults: stopped 1", NotShown: []string{"more."},
	}
	for _, of := range history.PerName(ops) {
		found, _ := history.Overlaps(of)
		page.Violations = append(page.Violations, found...)
	}
	return page
}

func written(t *testing.T, p Page) string {
	t.Helper()
	var out strings.Builder
	if err := Write(&out, p); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestThePolicyOfAPageAllowsItsOwnScriptAndStyleOnly(t *testing.T) {
	page := written(t, scene())
	between := func(begin, end string) string {
		_, text, _ := strings.Cut(page, begin)
		text, _, found := strings.Cut(text, end)
		if !found {
			t.Fatalf("the page has no %s", begin)
		}
		return text
	}
	policy := strings.ReplaceAll(between(`http-equiv="Content-Security-Policy" content="`, `"`), "&#43;", "+")
	policy = strings.ReplaceAll(policy, "&#39;", "'")
	want := fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
		hash(between("<style>", "</style>")), hash(between("<script>", "</script>")))
	if policy != want {
		t.Errorf("the policy is\n%s\nwant\n%s", policy, want)
	}
	if found := regexp.MustCompile(`https?:|//cdn|@import|url\(|\ssrc=|\son\w+=|<link`).FindString(page); found != "" {
		t.Errorf("the page has %q, which a page without a network must not have", found)
	}
}

func TestNamesReachAPageAsText(t *testing.T) {
	p := scene()
	p.Violations[0].Text = hostile[0]
	page := written(t, p)
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("the page has %d scripts, want the data and the script", n)
	}
	for _, bad := range []string{"<img", "\u202e", "<script>document"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, text := range []string{`&lt;script&gt;document.title=&#34;hacked`, `\u003cscript\u003edocument.title=\"hacked`, "{{.}}"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

func TestThePageSaysFirstWhatAHistoryShows(t *testing.T) {
	good := Page{Ops: []history.Operation{stay("0.0.0.1", "a", 0, 10, 20)}}
	falls := good
	falls.Violations = []history.Violation{{Kind: history.Falling, Text: "it falls"}}
	for _, tt := range []struct {
		name string
		page Page
		want []string
	}{
		{"good", good, []string{"<title>✓ ", "No two clients held a lock at the same time", "1 holdings"}},
		{"two holders", scene(), []string{"<title>✗ ", "Two clients held a lock at the same time",
			"0.0.0.1 from 0:01.901 to 0:02.901 and 1.0.0.1 from 0:02.401 to 0:03.901, together for 500ms.", ">0:02.401</button> <b>two holders</b>"}},
		{"another violation", falls, []string{"<title>✗ ", "The history shows a violation: fences do not rise", ">no time</button>"}},
		{"nothing", Page{}, []string{"<title>– ", "Nobody held a lock"}},
	} {
		page := written(t, tt.page)
		for _, want := range tt.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", tt.name, want)
			}
		}
	}
}

func TestALockWithTwoHoldersHasTwoRows(t *testing.T) {
	d := newData(scene())
	for i, g := range d.Groups[:len(d.Locks)] {
		want := 1
		if d.Locks[i] == hostile[0] {
			want = 2
		}
		if g.Label != d.Locks[i] || len(g.Rows) != want {
			t.Errorf("the lane of %q has the label %q and %d rows, want %d", d.Locks[i], g.Label, len(g.Rows), want)
		}
	}
}

func TestALossIsLateIfAnotherHasEnteredBefore(t *testing.T) {
	d := newData(scene())
	for _, o := range d.Ops {
		want := ""
		if o.ID == "4.0.0.1" {
			want = "2.0.2.1"
		}
		if o.Late != want {
			t.Errorf("%s has its notice after %q, want %q", o.ID, o.Late, want)
		}
	}
	lost := stay("0.0.0.1", "a", 0, 10, 20)
	lost.Lost = ms(29)
	if late := lateNotices([]history.Operation{lost, stay("1.0.0.1", "a", 1, 30, 40)}); len(late) != 0 {
		t.Errorf("a loss that was noticed before the next client entered is late: %v", late)
	}
}

func TestALongHistoryIsDrawnNearItsViolations(t *testing.T) {
	var p Page
	for i := range int64(opsMost + 10_000) {
		p.Ops = append(p.Ops, stay(fmt.Sprintf("0.0.0.%d", i), "a", 0, 10+i*10, 15+i*10))
	}
	last := p.Ops[len(p.Ops)-1]
	p.Violations = []history.Violation{{Kind: history.Falling, At: last.Entered, Name: "a", IDs: []string{last.ID}}}
	d := newData(p)
	if len(d.Ops) != opsMost || len(d.Marks[0].Ops) != 1 {
		t.Errorf("%d operations are drawn, and %d of the violation, want %d and 1", len(d.Ops), len(d.Marks[0].Ops), opsMost)
	}
	if want := "The lanes show 50000 of 60000 calls: those until 8:1"; !strings.HasPrefix(d.cut, want) {
		t.Errorf("the page says %q, want %q", d.cut, want)
	}
}

func TestAReportReplacesNoFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.html")
	if err := errors.Join(Free(name), Create(name, scene())); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(name)
	for _, err := range []error{Free(name), Create(name, Page{})} {
		if !errors.Is(err, os.ErrExist) {
			t.Errorf("over an existing file: %v, want that it exists", err)
		}
	}
	if after, _ := os.ReadFile(name); string(after) != string(before) {
		t.Error("the file has changed")
	}
	if left := files(t, name); len(left) != 1 {
		t.Errorf("beside the report there is %v", left)
	}
}

func TestAReportThatCannotBeWrittenLeavesNoFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.html")
	err := create(name, func(out io.Writer) error {
		io.WriteString(out, "<!doctype html>")
		return &os.PathError{Op: "write", Path: out.(*os.File).Name(), Err: syscall.ENOSPC}
	})
	if !errors.Is(err, syscall.ENOSPC) || err.Error() != "write "+name+": no space left on device" || len(files(t, name)) != 0 {
		t.Errorf("a full disk: %v, and the files %v", err, files(t, name))
	}
	if err := Free(filepath.Join(filepath.Dir(name), "none", "report.html")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

func files(t *testing.T, beside string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(beside))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// FuzzPage checks that every history that can be read makes a page, of which it reaches no other part than the texts.
func FuzzPage(f *testing.F) {
	f.Add(`{"k":"asked","op":"0.0.0.1","t":5,"n":"a b","how":"queueing"}` + "\n" + `{"k":"entered","op":"0.0.0.1","t":6,"fence":7}` + "\n" +
		`{"k":"held","op":"0.0.0.1","t":9}` + "\n" + `{"k":"lost","op":"0.0.0.1","t":10}` + "\n" + `{"k":"fault","op":"0","t":7,"n":"</script>"}`)
	f.Add(`{"k":"asked","op":"...","t":-5,"n":" "}` + "\n" + `{"k":"stopped","op":"-9","t":9223372036854775807}` + "\n" + `{"k":"refused","op":"...","t":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, text string) {
		h := history.New()
		history.Read(strings.NewReader(text), h.Add)
		p := Page{Ops: h.Snapshot(), Stopped: make(map[int][]history.Span), Violations: history.Contradictions(h.Snapshot())}
		for _, fault := range h.Faults() {
			p.Faults = append(p.Faults, Fault{Name: fault.Name, Client: fault.Client, Span: fault.Span})
			p.Stopped[fault.Client] = h.Stopped(fault.Client)
		}
		for _, ops := range history.PerName(p.Ops) {
			found, _ := history.Overlaps(ops)
			p.Violations = append(append(p.Violations, found...), history.Fences(ops)...)
		}
		page := written(t, p)
		if n := strings.Count(page, "<script"); n != 2 || strings.Count(page, "</script") != 2 {
			t.Errorf("the page has %d scripts, want the data and the script:\n%s", n, text)
		}
	})
}
