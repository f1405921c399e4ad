package master

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// If clocks seem to have jumped, either the masters' clocks have, or the client's own. Masters whose clocks have
// jumped get a new record. If the client's clock has, only this client quarantines the masters.
func TestAMasterIsBlamedForAJumpUnlessOthersJumpAlike(t *testing.T) {
	type step struct {
		at     time.Duration
		master int
		by     time.Duration
	}
	const s = time.Second
	for _, row := range []struct {
		name    string
		masters int
		down    []int
		steps   []step
		jumped  []int // are quarantined
		written []int // have another record
	}{
		{"one of three", 3, nil, []step{{0, 1, 5 * s}}, []int{1}, []int{1}},
		{"one of three, back", 3, nil, []step{{0, 1, -5 * s}}, []int{1}, []int{1}},
		{"the only one", 1, nil, []step{{0, 0, 5 * s}}, []int{0}, []int{0}},
		{"one, and nobody else is there to tell", 3, []int{0, 2}, []step{{0, 1, 5 * s}}, []int{1}, nil},
		{"all alike", 3, nil, []step{{0, 0, 5 * s}, {0, 1, 5 * s}, {0, 2, 5 * s}}, []int{0, 1, 2}, nil},
		{"all alike, back", 3, nil, []step{{0, 0, -5 * s}, {0, 1, -5 * s}, {0, 2, -5 * s}}, []int{0, 1, 2}, nil},
		{"all nearly alike", 3, nil, []step{{0, 0, 5 * s}, {0, 1, 5*s + 40*time.Millisecond}, {0, 2, 5*s - 40*time.Millisecond}}, []int{0, 1, 2}, nil},
		{"all that are up alike", 3, []int{2}, []step{{0, 0, 5 * s}, {0, 1, 5 * s}}, []int{0, 1}, nil},
		{"both, not quite alike", 2, nil, []step{{0, 0, 5 * s}, {0, 1, 5*s + 150*time.Millisecond}}, []int{0, 1}, []int{0, 1}},
		{"both, the other way", 2, nil, []step{{0, 0, 5 * s}, {0, 1, -5 * s}}, []int{0, 1}, []int{0, 1}},
		{"all alike, and later one alone", 3, nil, []step{{0, 0, 5 * s}, {0, 1, 5 * s}, {0, 2, 5 * s}, {5 * s, 0, 20 * s}}, []int{0, 1, 2}, []int{0}},
		{"one after the other, alike, in a minute", 2, nil, []step{{0, 0, 5 * s}, {35 * s, 1, 5 * s}}, []int{0, 1}, []int{0}},
		{"one after the other, alike, long after", 2, nil, []step{{0, 0, 5 * s}, {65 * s, 1, 5 * s}}, []int{1}, []int{0, 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, row.masters, func(t *testing.T, masters []*Master, servers []*memory) {
				var before []string
				for _, v := range servers {
					before = append(before, v.get())
				}
				for _, i := range row.down {
					servers[i].before(func([]string) string { return hangUp })
				}
				time.Sleep(1500 * time.Millisecond)
				for _, step := range row.steps {
					time.Sleep(step.at)
					servers[step.master].step(step.by)
				}
				time.Sleep(3500 * time.Millisecond)
				synctest.Wait()
				for i, m := range masters {
					want := Up
					if slices.Contains(row.down, i) {
						want = Down
					} else if slices.Contains(row.jumped, i) {
						want = Quarantined
					}
					wantState(t, m, want, "")
					if got := servers[i].get() != before[i]; got != slices.Contains(row.written, i) {
						t.Errorf("master %d: the record is written anew: %v, want %v", i, got, !got)
					}
				}
			})
		})
	}
}

// A jump is reported even if the connection is lost before the report, and also if it came before the connection.
func TestAJumpIsReportedEvenIfTheConnectionEnds(t *testing.T) {
	for _, row := range []struct {
		name string
		cut  string // the command with which the connection is lost after the jump
	}{
		{"before the probe", "PING"},
		{"before the look", "EVALSHA"},
		{"not at all", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
				v, m := servers[0], masters[0]
				before := v.get()
				v.step(time.Minute)
				v.before(func(cmd []string) string {
					if cmd[0] == row.cut {
						v.before(nil)
						return hangUp
					}
					return ""
				})
				time.Sleep(3500 * time.Millisecond)
				synctest.Wait()
				wantState(t, m, Quarantined, "its clock has jumped")
				if v.get() == before {
					t.Error("the record is not written anew")
				}
				wantState(t, masters[1], Up, "")
			})
		})
	}
}

// The connection may be lost while the client finds out whose clock has jumped. It may take a while until another
// master can be compared.
func TestAJumpIsReportedWhenAnotherMasterExplainsIt(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		before := v.get()
		servers[1].before(func([]string) string { return hangUp })
		time.Sleep(1500 * time.Millisecond)
		v.step(time.Minute)
		time.Sleep(1500 * time.Millisecond)
		wantState(t, m, Quarantined, "its clock has jumped")
		v.before(func([]string) string { return hangUp })
		time.Sleep(2 * time.Second)
		wantState(t, m, Down, "")
		v.before(nil)
		time.Sleep(2 * time.Second)
		wantState(t, m, Quarantined, "its clock has jumped")
		if v.get() != before {
			t.Error("the record is written before another master could tell")
		}
		servers[1].before(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantState(t, masters[1], Up, "")
		wantState(t, m, Quarantined, "its clock has jumped")
		if v.get() == before {
			t.Error("the record is not written anew")
		}
	})
}

// Heartbeats keep the comparison of the clocks up to date.
func TestASmallJumpIsFoundAfterALongTime(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		time.Sleep(time.Hour)
		servers[0].step(100 * time.Millisecond)
		time.Sleep(1500 * time.Millisecond)
		wantState(t, masters[0], Quarantined, "its clock has jumped")
		wantState(t, masters[1], Up, "")
	})
}

// If the clocks of two masters make the same step, and that of a third does not, the client's own clock is not
// blamed.
func TestAThirdMasterExplainsAJumpOfTwo(t *testing.T) {
	for _, gap := range []time.Duration{0, 3 * time.Second} {
		guarded(t, 3, func(t *testing.T, masters []*Master, servers []*memory) {
			before := []string{servers[0].get(), servers[1].get()}
			servers[0].step(5 * time.Second)
			time.Sleep(gap)
			servers[1].step(5 * time.Second)
			time.Sleep(3500 * time.Millisecond)
			synctest.Wait()
			for i, b := range before {
				if servers[i].get() == b {
					t.Errorf("%v apart: the record of master %d is not written anew", gap, i)
				}
			}
		})
	}
}

// The same holds if the third master is in quarantine for another reason.
func TestAMasterInQuarantineCanExplainAJump(t *testing.T) {
	guarded(t, 3, func(t *testing.T, masters []*Master, servers []*memory) {
		servers[2].set("") // as at a new server
		time.Sleep(1500 * time.Millisecond)
		wantState(t, masters[2], Quarantined, "it has no memory")
		records := []string{servers[0].get(), servers[1].get(), servers[2].get()}
		for _, v := range servers[:2] {
			v.step(5 * time.Second)
			time.Sleep(3500 * time.Millisecond)
		}
		synctest.Wait()
		for i, v := range servers {
			if got := v.get() != records[i]; got != (i < 2) {
				t.Errorf("master %d: the record is written anew: %v, want %v", i, got, !got)
			}
		}
	})
}

// A jump of the client's own clock is not reported to other clients, not even during a quarantine.
func TestAJumpOfOurOwnClockInAQuarantineIsNotReported(t *testing.T) {
	guarded(t, 3, func(t *testing.T, masters []*Master, servers []*memory) {
		for _, v := range servers {
			v.set("") // as at new servers
		}
		time.Sleep(1500 * time.Millisecond)
		var before []string
		for _, v := range servers {
			before = append(before, v.get())
			v.step(5 * time.Second)
		}
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		for i, v := range servers {
			if v.get() != before[i] {
				t.Errorf("the record of master %d is written anew", i)
			}
		}
	})
}

// slowAt makes a server answer a command late.
func slowAt(v *memory, name string, by time.Duration) {
	v.before(func(cmd []string) string {
		if cmd[0] == name {
			time.Sleep(by)
		}
		return ""
	})
}

// It may become clear whose clock has jumped while the client reconnects.
func TestAJumpThatIsExplainedWhileDiallingIsReported(t *testing.T) {
	guarded(t, 2, func(t *testing.T, masters []*Master, servers []*memory) {
		v, m := servers[0], masters[0]
		before := v.get()
		slowAt(servers[1], "PING", 300*time.Millisecond)
		v.step(120 * time.Second)
		time.Sleep(1100 * time.Millisecond)
		v.before(func(cmd []string) string {
			switch {
			case cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key:
				time.Sleep(700 * time.Millisecond) // until the other master has answered
			case cmd[0] == "EVALSHA":
				return hangUp
			}
			return ""
		})
		m.Ask(wire.Renew, claimOf("a"), nil) // loses the connection
		time.Sleep(1200 * time.Millisecond)
		v.before(nil)
		time.Sleep(20 * time.Second)
		wantState(t, m, Quarantined, "")
		if v.get() == before {
			t.Error("the record is not written anew")
		}
	})
}

// A probe that was sent before our clock stopped and answered afterwards fits both cases, so it does not prove
// that our clock went on.
func TestAProbeThatLastedThroughTheJumpExplainsNothing(t *testing.T) {
	var slept atomic.Int64
	own := func() clock.Reading {
		now := time.Now()
		return clock.At(now, now, time.Duration(slept.Load()))
	}
	guardedBy(t, 2, own, func(t *testing.T, masters []*Master, servers []*memory) {
		before := servers[0].get()
		time.Sleep(500 * time.Millisecond)
		slowAt(servers[1], "PROBE", 900*time.Millisecond)
		masters[1].Ask(wire.Renew, claimOf("a"), nil)
		time.Sleep(200 * time.Millisecond)
		slept.Store(int64(30 * time.Second))
		masters[0].Ask(wire.Renew, claimOf("a"), nil)
		time.Sleep(170 * time.Millisecond)
		wantState(t, masters[0], Quarantined, "its clock has jumped by -")
		wantState(t, masters[1], Up, "")
		time.Sleep(4 * time.Second)
		wantState(t, masters[1], Quarantined, "its clock has jumped by -")
		if got := servers[0].get(); got != before {
			t.Errorf("the record is %q, want it to be as before, %q", got, before)
		}
	})
}
