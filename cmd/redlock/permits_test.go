package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

// holdPermits makes c hold n permits on all masters, for longer than the 400 ms for which a permit is valid before its first renewal.
func holdPermits(t *testing.T, c *redlock.Client, name string, limit, n int) *redlock.Permit {
	t.Helper()
	until(t, func() bool { // no first connection is under way
		return !slices.ContainsFunc(c.Masters(), func(m redlock.MasterStatus) bool { return m.State == redlock.MasterConnecting })
	})
	p, err := acquireRenewed(t.Context(), c.Semaphore(name, limit), n)
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // the last command was executed
		h, err := c.InspectSemaphore(t.Context(), name)
		stands := func(s redlock.SlotHolding) bool {
			return s.Token == p.Token() && s.Masters == len(c.Masters()) && s.Left > time.Second
		}
		return err == nil && len(slices.DeleteFunc(h.Slots, func(s redlock.SlotHolding) bool { return !stands(s) })) == n
	})
	return p
}

// acquireRenewed acquires n permits until they have been renewed once. On a busy machine they may be lost before.
func acquireRenewed(ctx context.Context, s *redlock.Semaphore, n int) (*redlock.Permit, error) {
	for {
		p, err := s.AcquireN(ctx, n)
		if err != nil {
			return nil, err
		}
		for p.Valid() {
			if time.Until(p.Until()) > time.Second {
				return p, nil
			}
			time.Sleep(time.Millisecond)
		}
		p.Release()
	}
}

// waitForPermit makes c wait for a permit until the test ends, or until it has it.
func waitForPermit(t *testing.T, c *redlock.Client, name string, limit int) <-chan *redlock.Permit {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	in := make(chan *redlock.Permit, 1)
	go func() {
		if p, err := acquireRenewed(ctx, c.Semaphore(name, limit), 1); err == nil {
			in <- p
		}
	}()
	until(t, func() bool {
		h, err := c.InspectSemaphore(t.Context(), name)
		return err == nil && h.Waiting > 0
	})
	return in
}

func TestStatusShowsSlotsWaitersAndLimits(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	a, b := openQuietly(t, masters, redlock.Options{Owner: "web-1"}), openQuietly(t, masters, redlock.Options{Owner: "web-2"})
	p := holdPermits(t, a, "gpus", 4, 2)
	holdPermits(t, b, "gpus", 4, 1)
	waitForPermit(t, b, "gpus", 3)
	hold(t, a, "stock")
	for _, args := range [][]string{{"gpus", "stock"}, nil, {"--prefix", "gp"}} {
		out, _ := runCommandLine(t, exitOK, "", append([]string{"status", "--masters", masters}, args...)...)
		out = replaceAll(out, `\d+\.\ds`, "TIME")
		wantLine(t, out, "gpus", "3 of 4 permits", "-", "-", "-", "1: web-2 TIME")
		for _, slot := range p.Slots() {
			wantLine(t, out, "gpus#"+joined([]int{slot}, ""), "web-1 (limit 4)", "TIME", "3 of 3", "-", "-")
		}
		want(t, out, "clients use the limits 3, 4: the largest counts")
		if n := strings.Count(out, "gpus "); n != 1 {
			t.Errorf("%d lines with gpus, want that of the semaphore, and none of a lock:\n%s", n, out)
		}
	}
	out, _ := runCommandLine(t, exitOK, "", "status", "--json", "--masters", masters, "gpus", "stock")
	var got struct {
		Locks      []struct{ Name string }
		Semaphores []struct {
			Name           string
			Limits         []int
			Taken, Waiting int
			Slots          []struct {
				Slot, Masters, Limit int
				Owner                string
				Held                 bool
				Left                 int64 `json:"left_ms"`
			}
			Waiters []struct {
				Owner          string
				Permits, Limit int
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Locks) != 1 || got.Locks[0].Name != "stock" || len(got.Semaphores) != 1 {
		t.Fatalf("--json prints %s", out)
	}
	s := got.Semaphores[0]
	if s.Name != "gpus" || !slices.Equal(s.Limits, []int{3, 4}) || s.Taken != 3 || s.Waiting != 1 || len(s.Slots) != 3 || len(s.Waiters) != 1 ||
		s.Waiters[0].Owner != "web-2" || s.Waiters[0].Permits != 1 || s.Waiters[0].Limit != 3 {
		t.Errorf("--json prints %+v", s)
	}
	for i, slot := range s.Slots {
		if i > 0 && slot.Slot <= s.Slots[i-1].Slot || slot.Masters != 3 || slot.Limit != 4 || !slot.Held || slot.Left <= 0 || slot.Owner == "" {
			t.Errorf("--json prints the slot %+v", slot)
		}
	}
}

func TestBreakEndsTheLeaseOfASlot(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	open := func(owner string) *redlock.Client {
		return openQuietly(t, masters, redlock.Options{Owner: owner, LockOptions: redlock.LockOptions{TTL: time.Hour, RenewEvery: 100 * time.Millisecond}, MaxTTL: time.Hour})
	}
	a, b, c := open("web-1"), open("web-2"), open("web-3")
	p, q := holdPermits(t, a, "gpus", 3, 2), holdPermits(t, b, "gpus", 3, 1)
	in := waitForPermit(t, c, "gpus", 3)
	slots := joined(p.Slots(), ",")
	name := "gpus#" + joined(p.Slots()[1:], "")

	_, errOut := runCommandLine(t, exitFailure, "", "break", "--masters", masters, "gpus")
	want(t, errOut, "nobody holds the lock gpus", "redlock break 'gpus#SLOT'")
	_, errOut = runCommandLine(t, exitFailure, "", "break", "--force", "--masters", masters, "gpus#7")
	want(t, errOut, "nobody holds gpus#7")

	var out string
	until(t, func() bool { // web-3 may stand in a slot at a master, or register its claim again
		out, errOut = runCommandLine(t, exitFailure, "n\n", "break", "--masters", masters, name)
		return strings.Contains(unfolded(out), "waits: web-3")
	})
	want(t, out, "gpus#"+slots+" is held by web-1, on 3 of 3 masters, for ", " more; 1 call waits: web-3 ", "within about a third of its TTL. Until\nthen two clients can have the same slot. ", "End this lease? [y/N] ")
	want(t, errOut, "redlock: error: nothing was ended\n")
	if p.Err() != nil || q.Err() != nil {
		t.Fatalf("no was the answer: %v, %v", p.Err(), q.Err())
	}

	out, _ = runCommandLine(t, exitOK, "y\n", "break", "--masters", masters, name)
	want(t, endedOnAll(out), "Ended the lease of web-1 (gpus#"+slots+") on 3 of 3 masters.\n")
	<-p.Done()
	if err := p.Err(); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("Err = %v after the break, want ErrLost", err)
	}
	r := <-in // the slots were passed on
	if err := q.Err(); err != nil {
		t.Errorf("the lease of another slot: %v", err)
	}

	out, _ = runCommandLine(t, exitOK, "y\n", "break", "--masters", masters, "gpus#*")
	want(t, out, "is held by web-2, ", "is held by web-3, ", "End these 2 leases? [y/N] ", "Ended the lease of web-2 (", "Ended the lease of web-3 (")
	<-q.Done()
	<-r.Done()
	_, errOut = runCommandLine(t, exitFailure, "", "break", "--force", "--masters", masters, "gpus#*")
	want(t, errOut, "nobody holds gpus#*")

	p = holdPermits(t, a, "gpus", 3, 1) // a lock of this name goes before the slot
	name = "gpus#" + joined(p.Slots(), "")
	lease := hold(t, b, name).Lease()
	out, _ = runCommandLine(t, exitOK, "", "break", "--force", "--masters", masters, name)
	want(t, endedOnAll(out), "Ended the lease of web-2 on 3 of 3 masters.\n")
	<-lease.Done()
	if err := p.Err(); err != nil {
		t.Errorf("the lease of the slot: %v", err)
	}
}

func TestANameIsThatOfALockOfASemaphoreOrOfBoth(t *testing.T) {
	for _, row := range []struct {
		name            string
		seen            lockOfNames
		lock, semaphore bool
	}{
		{"nothing", lockOfNames{}, false, false},
		{"a key", lockOfNames{Holding: holding.Holding{Holder: wire.Holder{Token: "t"}}}, true, false},
		{"somebody waits for the lock", lockOfNames{Holding: holding.Holding{Queue: holding.Queue{Waiting: 1}}}, true, false},
		{"it cannot be read", lockOfNames{problem: errors.New("a problem")}, true, false},
		{"a slot", lockOfNames{permits: holding.Semaphore{Taken: 1}}, false, true},
		{"somebody waits for a permit", lockOfNames{permits: holding.Semaphore{Queue: holding.Queue{Waiting: 1}}}, false, true},
		{"a key and a slot", lockOfNames{Holding: holding.Holding{Holder: wire.Holder{Token: "t"}}, permits: holding.Semaphore{Taken: 1}}, true, true},
	} {
		if lock, semaphore := row.seen.isLock(), row.seen.isSemaphore(); lock != row.lock || semaphore != row.semaphore {
			t.Errorf("%s: isLock is %v and isSemaphore %v", row.name, lock, semaphore)
		}
	}
}

func TestTheLeasesOfASemaphoreAreNamedByAllTheirSlots(t *testing.T) {
	l := lockOfNames{name: "gpus"}
	for i, token := range []string{"a", "b", "a", "c"} {
		l.permits.Slots = append(l.permits.Slots, holding.Slot{Number: i, Holding: holding.Holding{Holder: wire.Holder{Token: token}}})
	}
	for slot, want := range map[int]string{-1: "gpus#0,2 gpus#1 gpus#3", 0: "gpus#0,2", 2: "gpus#0,2", 3: "gpus#3", 4: ""} {
		var got []string
		for _, lease := range l.leasesOf(slot) {
			got = append(got, lease.title())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the leases in slot %d are %v, want %s", slot, got, want)
		}
	}
}

func TestNamesOfSlots(t *testing.T) {
	for _, row := range []struct {
		text, name string
		slot       int
		ok         bool
	}{
		{"gpus#3", "gpus", 3, true},
		{"gpus#*", "gpus", -1, true},
		{"a#b#0", "a#b", 0, true},
		{"gpus#65535", "gpus", 65535, true},
		{"gpus#65536", "", 0, false},
		{"gpus#", "", 0, false},
		{"gpus#-1", "", 0, false},
		{"gpus#3x", "", 0, false},
		{"#3", "", 0, false},
		{"gpus", "", 0, false},
	} {
		name, slot, ok := parseSlotName(row.text)
		if ok != row.ok || ok && (name != row.name || slot != row.slot) {
			t.Errorf("parseSlotName(%q) = %q, %d, %v", row.text, name, slot, ok)
		}
	}
}

func TestTheDocumentShowsTheTableOfASemaphore(t *testing.T) {
	const token = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@"
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	l := lockOfNames{name: "gpus", permits: holding.Semaphore{Taken: 2, Slots: []holding.Slot{
		{Number: 0, Holding: holding.Holding{Holder: wire.Holder{Token: token + "web-1/4711", Left: 8200 * time.Millisecond, Limit: 4}, Masters: 5, Need: 3}},
		{Number: 3, Holding: holding.Holding{Holder: wire.Holder{Token: token + "web-2/88", Left: 9700 * time.Millisecond, Limit: 4}, Masters: 5, Need: 3}},
	}, Queue: holding.Queue{Waiting: 1, Waiters: []wire.Waiter{{ID: token + "web-3/9", For: 200 * time.Millisecond, Permits: 2, Limit: 4}}}}}
	table := locksTable(observation{masters: 5, need: 3, locks: []lockOfNames{l}}, nil).String()
	if !strings.Contains(string(text), "```\n"+table+"```\n") {
		t.Errorf("docs/operations.md does not have this table:\n%s", table)
	}
}

func TestATableOfManySlotsSaysWhatItLeavesOut(t *testing.T) {
	l := lockOfNames{name: strings.Repeat("n", 70)}
	l.permits.Taken = 300
	for i := range 2 {
		l.permits.Slots = append(l.permits.Slots, holding.Slot{Number: i, Holding: holding.Holding{Holder: wire.Holder{Token: "t", Limit: 400}, Masters: 3, Need: 2}})
	}
	l.permits.Slots[0].Limit = 0 // it is unknown
	l.permits.Waiters = []wire.Waiter{{Limit: 300}}
	out := locksTable(observation{masters: 3, need: 2, locks: []lockOfNames{l}}, nil).String()
	if strings.Contains(out, "(limit 0)") || !strings.Contains(out, "(limit 400)") {
		t.Errorf("the limits of the slots are not those that are known:\n%s", out)
	}
	want(t, out, "300 of 400 permits", "298 more slots are not shown", "…#0\n", "…#1\n")
	for line := range strings.Lines(out) {
		if len([]rune(line)) > screenWidth {
			t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
		}
	}
}
