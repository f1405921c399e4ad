package renew

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// start is when the leases of these tests begin.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) clock.Reading { return clock.At(start.Add(d), start.Add(d), 0) }

var (
	done    = wire.Answer{Outcome: wire.Granted}
	missing = wire.Answer{Outcome: wire.Missing}
	failed  = wire.Answer{Err: errors.New("no answer")}
)

const full = 10 * time.Second

// lease returns a Validity of 10 s, and the Plan of one that is renewed every 3 s.
func lease() (*Validity, Plan) {
	return &Validity{Start: at(0), Length: full}, Plan{Every: 3 * time.Second, MaxHold: time.Hour, Held: at(0)}
}

func TestARenewalIsDueOnlyWhileTheLeaseMayBeRenewed(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Validity, *Plan)
		at     time.Duration
		slack  time.Duration
	}{
		{"as a rule", func(*Validity, *Plan) {}, 3 * time.Second, 100 * time.Millisecond},
		{"a short time between renewals", func(_ *Validity, p *Plan) { p.Every = 80 * time.Millisecond }, 80 * time.Millisecond, 10 * time.Millisecond},
		{"renewal is off", func(_ *Validity, p *Plan) { p.Every = -1 }, full, 0},
		{"not before the end", func(_ *Validity, p *Plan) { p.Every = full }, full, 0},
		{"granted by a release", func(v *Validity, _ *Plan) { v.Length, v.Short = 400*time.Millisecond, true }, 100 * time.Millisecond, 12500 * time.Microsecond},
		{"granted by a release, for longer", func(v *Validity, _ *Plan) { v.Length, v.Short = time.Second, true }, 100 * time.Millisecond, 12500 * time.Microsecond},
		{"granted by a release, and half of that has passed", func(v *Validity, _ *Plan) { v.Length, v.Short = 200*time.Millisecond, true }, 50 * time.Millisecond, 6250 * time.Microsecond},
		{"after MaxHold", func(_ *Validity, p *Plan) { p.MaxHold = 3 * time.Second }, full, 0},
		{"just before MaxHold", func(_ *Validity, p *Plan) { p.MaxHold = 3*time.Second + 1 }, 3 * time.Second, 100 * time.Millisecond},
		{"MaxHold is prolonged", func(_ *Validity, p *Plan) { p.MaxHold, p.Longer = time.Second, 2*time.Second+1 }, 3 * time.Second, 100 * time.Millisecond},
		{"no MaxHold", func(_ *Validity, p *Plan) { p.MaxHold, p.Longer = -1, -time.Hour }, 3 * time.Second, 100 * time.Millisecond},
		{"MaxHold counts for each holder", func(_ *Validity, p *Plan) { p.MaxHold, p.Held = time.Second, at(2500*time.Millisecond) }, 3 * time.Second, 100 * time.Millisecond},
		{"granted by a release, after MaxHold", func(v *Validity, p *Plan) { v.Short, p.MaxHold = true, time.Nanosecond }, 100 * time.Millisecond, 12500 * time.Microsecond},
		{"an earlier call is wanted", func(_ *Validity, p *Plan) { p.By = start.Add(time.Second) }, time.Second, 100 * time.Millisecond},
		{"a later call is wanted", func(_ *Validity, p *Plan) { p.By = start.Add(4 * time.Second) }, 3 * time.Second, 100 * time.Millisecond},
		{"the call was wanted before", func(_ *Validity, p *Plan) { p.By = start }, 3 * time.Second, 100 * time.Millisecond},
	} {
		v, p := lease()
		row.change(v, &p)
		if next, slack := v.Next(p); next.Sub(start) != row.at || slack != row.slack {
			t.Errorf("%s: due after %v with a slack of %v, want %v, %v", row.name, next.Sub(start), slack, row.at, row.slack)
		}
	}
}

// vote has the masters answer the current renewal, in their order.
func vote(v *Validity, again time.Time, answers ...wire.Answer) {
	for i, a := range answers {
		v.Vote(i, a, again)
	}
}

func TestARenewalProlongsTheValidityFromItsStart(t *testing.T) {
	v, _ := lease()
	v.Short = true
	r := v.Begin(at(3*time.Second), 3, nil)
	if v.Pending() != r || !v.Current(r) {
		t.Error("the renewal is not pending")
	}
	vote(v, time.Time{}, missing, done)
	if got := v.Count(at(4*time.Second), full); got != Undecided || r.Succeeded() {
		t.Errorf("one of three: %v, want Undecided", got)
	}
	v.Vote(2, done, time.Time{})
	if got := v.Count(at(9*time.Second), full); got != Succeeded || !r.Succeeded() || v.Pending() != nil {
		t.Errorf("two of three: %v, want Succeeded", got)
	}
	if v.Start != at(3*time.Second) || v.Length != full || v.Short || !v.Until().Equal(start.Add(13*time.Second)) {
		t.Errorf("the validity is %+v, want %v from the start of the renewal", v, full)
	}
	if got := r.Missing(); got != 1 {
		t.Errorf("the masters to be healed are %b, want the first", got)
	}
}

func TestARenewalDoesNotCountAfterTheEnd(t *testing.T) {
	for _, row := range []struct {
		name    string
		now     time.Duration
		answers []wire.Answer
		want    Result
	}{
		{"in time", full - 1, []wire.Answer{done, done}, Succeeded},
		{"at the end", full, []wire.Answer{done, done}, Late},
		{"the keys are gone", time.Second, []wire.Answer{missing, missing}, Gone},
		{"errors prove nothing", time.Second, []wire.Answer{failed, failed, failed}, Undecided},
	} {
		v, _ := lease()
		v.Begin(at(0), 3, nil)
		vote(v, time.Time{}, row.answers...)
		if got := v.Count(at(row.now), full); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		if prolonged := row.want == Succeeded; (v.Pending() == nil) != prolonged {
			t.Errorf("%s: prolonged %v, want %v", row.name, !prolonged, prolonged)
		}
	}
}

func TestMastersThatFailedAreAskedAgainWithinTheSameRenewal(t *testing.T) {
	v, p := lease()
	r := v.Begin(at(3*time.Second), 5, nil)
	vote(v, start.Add(6*time.Second), missing, failed, done)
	v.Vote(3, failed, start.Add(5*time.Second))
	v.Vote(4, failed, start.Add(7*time.Second))
	if next, slack := v.Next(p); !next.Equal(start.Add(5*time.Second)) || slack != 0 {
		t.Errorf("the next call is due after %v with a slack of %v, want 5 s, when the first may be asked again", next.Sub(start), slack)
	}
	if got := r.Retry(at(5*time.Second - 1)); got != 0 {
		t.Errorf("too early: %b are asked again", got)
	}
	if got := r.Retry(at(5 * time.Second)); got != 0b11010 {
		t.Errorf("%b are asked again, want those that failed", got)
	}
	if got := r.Retry(at(5 * time.Second)); got != 0 {
		t.Errorf("%b are asked twice", got)
	}
	if next, _ := v.Next(p); !next.Equal(v.Until()) {
		t.Errorf("the next call is due after %v, want the end: all were asked", next.Sub(start))
	}
	v.Vote(3, done, time.Time{})
	v.Vote(1, done, time.Time{})
	if got := v.Count(at(6*time.Second), full); got != Succeeded || v.Start != at(3*time.Second) {
		t.Errorf("%v from %v, want that the validity counts from the first command", got, v.Start.Time().Sub(start))
	}
}

func TestOnlyMastersThatFailedAreAskedAgainAndNotAfterTheEnd(t *testing.T) {
	v, p := lease()
	v.Begin(at(0), 3, nil)
	v.Vote(0, done, start.Add(time.Second))
	if next, _ := v.Next(p); !next.Equal(v.Until()) {
		t.Errorf("after an answer, the next call is due after %v, want the end", next.Sub(start))
	}
	v.Vote(1, failed, start.Add(full+time.Second))
	if next, _ := v.Next(p); !next.Equal(v.Until()) {
		t.Errorf("the next call is due after %v, want the end", next.Sub(start))
	}
	v.Doubt(2)
	v.Vote(2, failed, start.Add(time.Second))
	if next, _ := v.Next(p); !next.Equal(start.Add(time.Second)) {
		t.Errorf("a master in doubt has failed: the next call is due after %v, want 1 s", next.Sub(start))
	}
}

// owner counts the answers that it is told of.
type owner map[*Renewal]int

func (o owner) Answered(r *Renewal, i int, a wire.Answer) {
	if i == 2 && a.Done() {
		o[r]++
	}
}

func TestTheOwnerIsToldOfAnswersAndOfTheirRenewal(t *testing.T) {
	v, _ := lease()
	told := owner{}
	first := v.Begin(at(0), 3, told)
	second := v.Begin(at(0), 3, told)
	first.Answered(2, done)
	if told[first] != 1 || told[second] != 0 || v.Current(first) || !v.Current(second) {
		t.Errorf("told %v, want one answer to the first renewal, which is not the current one", told)
	}
}

func TestAMasterInDoubtCountsFromTheRenewalAfterTheNext(t *testing.T) {
	v, _ := lease()
	v.Doubt(0)
	r := v.Begin(at(0), 3, nil)
	vote(v, time.Time{}, done, done)
	if got := v.Count(at(time.Second), full); got != Undecided || !v.Doubted() || r.Missing() != 1 {
		t.Errorf("with one in doubt: %v, missing %b; want Undecided, and the first", got, r.Missing())
	}
	v.Vote(2, done, time.Time{})
	if got := v.Count(at(time.Second), full); got != Succeeded || v.Doubted() {
		t.Errorf("without it: %v, in doubt %v", got, v.Doubted())
	}
	v.Begin(at(time.Second), 3, nil)
	vote(v, time.Time{}, done, done)
	if got := v.Count(at(2*time.Second), full); got != Succeeded {
		t.Errorf("the next renewal: %v, want that the first counts again", got)
	}
}

func TestALeaseIsOverByAnyClock(t *testing.T) {
	v, _ := lease()
	for _, row := range []struct {
		name string
		now  clock.Reading
		want bool
	}{
		{"before the end", at(full - 1), false},
		{"at the end", at(full), true},
		{"the wall clock was set", clock.At(start, start.Add(full), 0), true},
		{"the machine slept", clock.At(start, start, full), true},
	} {
		if got := v.Over(row.now); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestTheReasonOfAnEndIsNamed(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Validity, *Plan)
		now    clock.Reading
		want   string
	}{
		{"the machine slept", func(*Validity, *Plan) {}, clock.At(start.Add(time.Second), start.Add(time.Second), time.Minute), "by one clock 1s have passed, by another 1m1s"},
		{"renewal is off", func(_ *Validity, p *Plan) { p.Every = -1 }, at(full), "renewal is off"},
		{"MaxHold", func(_ *Validity, p *Plan) { p.MaxHold = time.Second }, at(full), "MaxHold, 1s"},
		{"no quorum", func(v *Validity, _ *Plan) { v.Begin(at(0), 3, nil) }, at(full), ErrUnrenewed.Error()},
		{"stopped", func(*Validity, *Plan) {}, at(full + 2*time.Second), "validity ended 2s ago"},
	} {
		v, p := lease()
		row.change(v, &p)
		if got := v.WhyOver(row.now, p).Error(); !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
