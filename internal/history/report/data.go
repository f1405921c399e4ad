package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// A data is what the script draws. Its times are in microseconds since the beginning; 0 means that something has not happened,
// or is not known.
type data struct {
	Origin float64  `json:"origin"` // the beginning, in seconds of the history's clock
	Length int64    `json:"length"`
	Locks  []string `json:"locks"`
	Groups []*group `json:"groups"`
	Ops    []drawn  `json:"ops"`
	Held   [][3]int `json:"held"` // operation, lock, row among all rows: the lanes of locks
	Bands  []band   `json:"bands"`
	Marks  []mark   `json:"marks"`

	began int64
	cut   string         // what is not drawn; "": all is
	index map[string]int // of the operations, by id
}

// A group is the rows of one lock, client or master.
type group struct {
	Kind  string   `json:"kind"` // lock, client or master
	Label string   `json:"label"`
	Note  string   `json:"note,omitempty"`
	Rows  []string `json:"rows"` // their labels
}

// A drawn is an operation.
type drawn struct {
	ID      string `json:"id"`
	Locks   []int  `json:"locks"`
	Row     int    `json:"row"` // among all rows
	Side    string `json:"side,omitempty"`
	How     string `json:"how,omitempty"`
	Fence   string `json:"fence,omitempty"` // a number of a script has too few digits
	Err     string `json:"err,omitempty"`
	Asked   int64  `json:"asked"`
	Refused int64  `json:"refused,omitempty"`
	Entered int64  `json:"entered,omitempty"`
	Held    int64  `json:"held,omitempty"`
	Lost    int64  `json:"lost,omitempty"`
	Leaving int64  `json:"leaving,omitempty"`
	Left    int64  `json:"left,omitempty"`
	Late    string `json:"late,omitempty"` // who had entered before the loss was noticed
}

// A band is a fault, or a stop, of one group.
type band struct {
	Group int    `json:"group"`
	Name  string `json:"name"` // "": the process is stopped
	From  int64  `json:"from"`
	To    int64  `json:"to,omitempty"`
}

// A mark is a violation.
type mark struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	At    int64  `json:"at,omitempty"`
	Until int64  `json:"until,omitempty"`
	Lock  int    `json:"lock"` // -1: none
	Ops   []int  `json:"ops"`
}

// opsMost is how many operations a page draws: with more, browsers become slow.
const opsMost = 50_000

// near is how long before and after a violation everything is drawn.
const near = 5 * time.Second

func newData(p Page) *data {
	d := &data{index: make(map[string]int), Groups: []*group{}, Ops: []drawn{}, Held: [][3]int{}, Bands: []band{}, Marks: []mark{}, Locks: []string{}}
	ops := slices.DeleteFunc(slices.Clone(p.Ops), func(o history.Operation) bool { return o.Asked == 0 || o.Name == "" })
	slices.SortStableFunc(ops, func(a, b history.Operation) int { return cmp.Compare(a.Asked, b.Asked) })
	d.span(ops, p)
	ops = d.drawable(ops, p.Violations)
	locks := make(map[string]int)
	for _, o := range ops {
		for name := range strings.SplitSeq(o.Name, " ") {
			locks[name] = 0
		}
	}
	for i, name := range slices.Sorted(maps.Keys(locks)) {
		locks[name] = i
		d.Locks = append(d.Locks, printable(name))
	}
	late := lateNotices(ops)
	for _, o := range ops {
		d.index[o.ID] = len(d.Ops)
		d.Ops = append(d.Ops, d.draw(o, locks, late[o.ID]))
	}
	row := d.lockLanes()
	clients := d.clientLanes(ops, p.Kinds, row)
	d.bands(p, clients)
	for _, v := range p.Violations[:min(len(p.Violations), violationsMost)] {
		m := mark{Kind: v.Kind, Text: printable(v.Text), At: d.since(v.At), Until: d.since(v.Until), Lock: -1, Ops: []int{}}
		if i, ok := locks[v.Name]; ok {
			m.Lock = i
		}
		for _, id := range v.IDs {
			if i, ok := d.index[id]; ok {
				m.Ops = append(m.Ops, i)
			}
		}
		d.Marks = append(d.Marks, m)
	}
	return d
}

// span finds the beginning and the end.
func (d *data) span(ops []history.Operation, p Page) {
	var last int64
	see := func(times ...int64) {
		for _, t := range times {
			if t != 0 && (d.began == 0 || t < d.began) {
				d.began = t
			}
			last = max(last, t)
		}
	}
	for _, o := range ops {
		see(o.Asked, o.Refused, o.Entered, o.Held, o.Lost, o.Leaving, o.Left)
	}
	for _, f := range p.Faults {
		see(f.From, f.To)
	}
	d.began -= int64(time.Millisecond) // so that no time is 0
	d.Origin = history.Seconds(d.began)
	d.Length = max(d.since(last), 1)
}

// since returns a time in microseconds since the beginning.
func (d *data) since(at int64) int64 {
	if at == 0 {
		return 0
	}
	return max((at-d.began)/int64(time.Microsecond), 1)
}

// drawable returns the operations to draw, of all, which are in the order of asking. Those near the first violations come before others.
func (d *data) drawable(ops []history.Operation, violations []history.Violation) []history.Operation {
	if len(ops) <= opsMost {
		return ops
	}
	var spans []history.Span
	for _, v := range violations {
		if v.At != 0 && len(spans) < violationsMost {
			spans = append(spans, history.Span{From: v.At - int64(near), To: max(v.At, v.Until) + int64(near)})
		}
	}
	chosen, n := make([]bool, len(ops)), 0
	choose := func(which func(history.Operation) bool) (last int64) {
		for i, o := range ops {
			if n < opsMost && !chosen[i] && which(o) {
				chosen[i], last = true, o.Asked
				n++
			}
		}
		return last
	}
	choose(func(o history.Operation) bool {
		return slices.ContainsFunc(spans, func(s history.Span) bool {
			return o.Asked < s.To && max(o.Asked, o.Refused, o.Entered, o.Held, o.Left) > s.From
		})
	})
	until := choose(func(history.Operation) bool { return true })
	var all []history.Operation
	for i, o := range ops {
		if chosen[i] {
			all = append(all, o)
		}
	}
	d.cut = fmt.Sprintf("The lanes show %d of %d calls: those until %s, and those near violations. The summary counts all.", n, len(ops), clock(d.since(until)))
	return all
}

func (d *data) draw(o history.Operation, locks map[string]int, late string) drawn {
	all := drawn{
		ID: printable(o.ID), Side: printable(o.Side), How: printable(o.How), Err: printable(o.Err), Late: late,
		Asked: d.since(o.Asked), Refused: d.since(o.Refused), Entered: d.since(o.Entered), Held: d.since(o.Held),
		Lost: d.since(o.Lost), Leaving: d.since(o.Leaving), Left: d.since(o.Left),
	}
	if o.Fence != 0 {
		all.Fence = strconv.FormatUint(o.Fence, 10)
	}
	for name := range strings.SplitSeq(o.Name, " ") {
		all.Locks = append(all.Locks, locks[name])
	}
	return all
}

// lateNotices returns who had entered before a client noticed the loss of its lease, by the id of the operation that lost it.
func lateNotices(ops []history.Operation) map[string]string {
	late := make(map[string]string)
	for _, of := range history.PerName(ops) {
		stays := history.ConfirmedOps(of)
		for _, o := range of {
			if o.Lost == 0 {
				continue
			}
			after := max(o.Entered, o.Held)
			i, _ := slices.BinarySearchFunc(stays, after, func(s history.Operation, at int64) int { return cmp.Compare(s.Entered, at) })
			for ; i < len(stays) && stays[i].Entered < o.Lost; i++ {
				if stays[i].ID != o.ID && (!o.Reads() || !stays[i].Reads()) {
					late[o.ID] = stays[i].ID
					break
				}
			}
		}
	}
	return late
}

// lockLanes makes the lanes of the locks, and returns how many rows they have. A lane has as many rows as there were holders at a time.
func (d *data) lockLanes() (row int) {
	byLock := make([][]int, len(d.Locks))
	for i, o := range d.Ops {
		if o.Entered == 0 || o.Held < o.Entered {
			continue
		}
		for _, l := range o.Locks {
			byLock[l] = append(byLock[l], i)
		}
	}
	for l, ops := range byLock {
		slices.SortFunc(ops, func(a, b int) int { return cmp.Compare(d.Ops[a].Entered, d.Ops[b].Entered) })
		ends := []int64{0} // of the rows
		for _, i := range ops {
			at := slices.IndexFunc(ends, func(end int64) bool { return end <= d.Ops[i].Entered })
			if at < 0 {
				at, ends = len(ends), append(ends, 0)
			}
			ends[at] = d.Ops[i].Held
			d.Held = append(d.Held, [3]int{i, l, row + at})
		}
		d.Groups = append(d.Groups, &group{Kind: "lock", Label: d.Locks[l], Rows: make([]string, len(ends))})
		row += len(ends)
	}
	return row
}

// clientLanes makes the lanes of the clients, from a row on, and returns the index of the group of each. A goroutine has a row.
func (d *data) clientLanes(ops []history.Operation, kinds map[int]string, row int) map[int]int {
	type goroutine struct {
		client int
		number string
	}
	of := func(o history.Operation) goroutine {
		parts := strings.Split(o.ID, ".")
		return goroutine{o.Client, parts[max(len(parts)-2, 0)]}
	}
	rows := make(map[goroutine]int)
	for _, o := range ops {
		rows[of(o)] = 0
	}
	groups := make(map[int]int)
	for _, g := range slices.SortedFunc(maps.Keys(rows), func(a, b goroutine) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(len(a.number), len(b.number)), cmp.Compare(a.number, b.number))
	}) {
		i, ok := groups[g.client]
		if !ok {
			i = len(d.Groups)
			groups[g.client] = i
			d.Groups = append(d.Groups, &group{Kind: "client", Label: fmt.Sprint("client ", g.client), Note: printable(kinds[g.client])})
		}
		d.Groups[i].Rows = append(d.Groups[i].Rows, printable(g.number))
		rows[g] = row
		row++
	}
	for _, o := range ops {
		d.Ops[d.index[o.ID]].Row = rows[of(o)]
	}
	return groups
}

// bands adds the faults and stops, and lanes for the masters that they concern.
func (d *data) bands(p Page, clients map[int]int) {
	masters := make(map[int]int)
	for _, f := range p.Faults {
		if f.Client < 0 {
			for _, m := range f.Masters {
				masters[m] = 0
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(masters)) {
		masters[m] = len(d.Groups)
		d.Groups = append(d.Groups, &group{Kind: "master", Label: fmt.Sprint("master ", m), Rows: []string{""}})
	}
	for _, f := range p.Faults {
		b := band{Name: printable(f.Name), From: d.since(f.From), To: d.since(f.To)}
		if g, ok := clients[f.Client]; ok {
			b.Group = g
			d.Bands = append(d.Bands, b)
		} else if f.Client < 0 {
			for _, m := range f.Masters {
				b.Group = masters[m]
				d.Bands = append(d.Bands, b)
			}
		}
	}
	for client, spans := range p.Stopped {
		if g, ok := clients[client]; ok {
			for _, s := range spans {
				d.Bands = append(d.Bands, band{Group: g, From: d.since(s.From), To: d.since(s.To)})
			}
		}
	}
	slices.SortStableFunc(d.Bands, func(a, b band) int { return cmp.Compare(a.From, b.From) })
}

// verdict returns what the page says first.
func (d *data) verdict(p Page) verdict {
	held := 0
	for _, o := range p.Ops {
		if o.Confirmed() {
			held++
		}
	}
	i := slices.IndexFunc(p.Violations, func(v history.Violation) bool { return v.Kind == history.Overlapping })
	length := time.Duration(d.Length) * time.Microsecond
	counts := fmt.Sprintf("%d holdings in %v, with %d faults.", held, length.Round(time.Second/10), len(p.Faults))
	switch {
	case i >= 0:
		return verdict{"bad", "✗", "Two clients held a lock at the same time", d.together(p.Violations[i]) + " " + counts}
	case len(p.Violations) > 0:
		return verdict{"bad", "✗", "The history shows a violation: " + p.Violations[0].Kind, printable(p.Violations[0].Text) + ". " + counts}
	case held == 0:
		return verdict{"none", "–", "Nobody held a lock", "So nothing is shown. " + counts}
	}
	return verdict{"good", "✓", "No two clients held a lock at the same time", counts + " No violation was found."}
}

// together says who held a lock at the same time, in the times of the lanes.
func (d *data) together(v history.Violation) string {
	var who []string
	for _, id := range v.IDs {
		if i, ok := d.index[id]; ok {
			who = append(who, fmt.Sprintf("%s from %s to %s", d.Ops[i].ID, clock(d.Ops[i].Entered), clock(d.Ops[i].Held)))
		}
	}
	if len(who) < 2 {
		return printable(v.Text) + "."
	}
	return fmt.Sprintf("“%s”: %s, together for %v.", printable(v.Name), strings.Join(who, " and "), time.Duration(v.Until-v.At).Round(time.Microsecond))
}

// clock returns a time since the beginning in minutes and seconds.
func clock(us int64) string {
	return fmt.Sprintf("%d:%06.3f", us/60_000_000, float64(us%60_000_000)/1e6)
}
