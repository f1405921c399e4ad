package redlock

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
)

// FuzzOptions checks the result of withDefaults for any numbers: a one-line error, or settings with which the
// algorithm is safe.
func FuzzOptions(f *testing.F) {
	const most = math.MaxInt64
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), 0.0, false, false)
	f.Add(int64(most), int64(most), int64(most), int64(most), int64(most), int64(most), int64(most), 0.5, true, false)
	f.Add(int64(0), int64(0), int64(most), int64(0), int64(0), int64(0), int64(0), 0.0, false, false)
	f.Add(int64(0), int64(0), int64(most), int64(most), int64(1), int64(-1), int64(-1), 1e-9, false, false)
	f.Add(int64(-1), int64(0), int64(0), int64(time.Second), int64(-1), int64(0), int64(0), math.NaN(), false, true)
	f.Add(int64(1), int64(1), int64(1), int64(time.Millisecond), int64(1), int64(1), int64(1), 0.999, true, false)
	f.Add(int64(time.Hour), int64(0), int64(0), int64(time.Minute), int64(0), int64(0), int64(0), math.Inf(1), true, true)
	f.Fuzz(func(t *testing.T, node, dial, maxTTL, ttl, renew, hold, handover int64, drift float64, fencing, unguarded bool) {
		o := &Options{
			NodeTimeout: time.Duration(node), DialTimeout: time.Duration(dial), MaxTTL: time.Duration(maxTTL),
			DriftFactor: drift, DisableRestartGuard: unguarded,
			LockOptions: LockOptions{
				TTL: time.Duration(ttl), RenewEvery: time.Duration(renew), MaxHold: time.Duration(hold),
				Handover: time.Duration(handover), Fencing: fencing,
			},
		}
		valid, err := o.withDefaults(5)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "redlock: ") || strings.Contains(text, "\n") {
				t.Errorf("withDefaults = %q, want one line of redlock's", text)
			}
			return
		}
		checkOptions(t, valid)
		again, err := valid.withDefaults(5)
		if err != nil {
			t.Fatalf("the valid Options %+v are refused: %v", valid, err)
		}
		valid.NewBackOff, again.NewBackOff, valid.clock, again.clock = nil, nil, nil, nil // functions are not comparable
		again.bounds.Automatic = valid.bounds.Automatic                                   // the second time, NodeTimeout is no longer zero
		if !reflect.DeepEqual(valid, again) {
			t.Errorf("withDefaults of valid Options %+v has changed them to %+v", valid, again)
		}
	})
}

// checkOptions fails t unless the valid options o satisfy the conditions of the algorithm.
func checkOptions(t *testing.T, o *Options) {
	t.Helper()
	l := o.LockOptions
	for _, rule := range []struct {
		name string
		ok   bool
	}{
		{"time-outs are positive", o.NodeTimeout >= 0 && o.DialTimeout > 0},
		{"the TTL is whole milliseconds within MaxTTL", l.TTL > 0 && l.TTL%time.Millisecond == 0 && l.TTL <= o.MaxTTL},
		{"drift is positive and below the TTL", o.bounds.Drift(l.TTL) > 0 && o.bounds.Drift(l.TTL) < l.TTL},
		{"validity is left after one NodeTimeout", l.TTL-o.bounds.Drift(l.TTL)-o.NodeTimeout > 0},
		{"renewal is before the end of validity", l.RenewEvery < 0 || l.RenewEvery > 0 && l.RenewEvery < l.TTL-o.bounds.Drift(l.TTL)},
		{"MaxHold and Handover are set", l.MaxHold != 0 && l.Handover != 0},
		{"no sum of durations overflows", o.MaxTTL <= longest && l.MaxHold <= longestHold && max(o.NodeTimeout, o.DialTimeout, l.RenewEvery, l.Handover) <= longest},
		{"a fenced acquisition has time", !l.Fencing || o.bounds.FencedWithin(l.TTL) > o.NodeTimeout},
		{"drift is a factor below 1", o.DriftFactor > 0 && o.DriftFactor < 1},
	} {
		if !rule.ok {
			t.Errorf("valid Options %+v break the rule: %s", o, rule.name)
		}
	}
}

// FuzzKey checks that no name leads to a key that redlock itself uses, and that errors are printable.
func FuzzKey(f *testing.F) {
	for _, row := range [][2]string{{"", ""}, {"", "a"}, {"shop:", ""}, {"red", "lock:a"}, {"redlock", ":"}, {"redlock:", "a"}, {"", "\x1b[31m\n"}, {"", strings.Repeat("x", 1<<16)}, {"", "\xff\x00"}} {
		f.Add(row[0], row[1])
	}
	f.Fuzz(func(t *testing.T, prefix, name string) {
		o := &Options{Prefix: prefix}
		key, err := o.key(name)
		if err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("key(%q) = %q, want a printable error", name, err)
			}
			return
		}
		if key != prefix+name || name == "" || len(key) > longestKey || strings.HasPrefix(key, ownKeys) {
			t.Errorf("the prefix %q and the name %q give the key %q", prefix, name, key)
		}
	})
}

// If a lock can be granted, the votes last for long enough in the worst case: the last ping before the grant was sent as early
// as can be, and the keys are extended before the claim wins. If it cannot, the TTL is short, or the clocks drift much.
func TestAClaimCanWinWithTheGrantThatItAsksFor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	between := func(least, most time.Duration) time.Duration { // small values are as likely as large ones
		return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64())).Truncate(time.Millisecond)
	}
	granted := 0
	for range 100_000 {
		o := &Options{DriftFactor: 1 - math.Pow(10, -3*random.Float64())}
		if random.IntN(2) == 0 {
			o.DriftFactor = math.Pow(10, -4*random.Float64()) / 2
		}
		ttl, trip := between(400*time.Millisecond, 168*time.Hour), between(time.Millisecond, 10*time.Second)
		g := o.bounds.Grant(ttl, trip)
		wins := o.bounds.WinsAt(g, true)
		if g == 0 {
			if o.DriftFactor <= 0.1 && ttl >= time.Second && trip <= ttl/8 {
				t.Fatalf("TTL %v, drift %v, round trip %v: the lock cannot be granted", ttl, o.DriftFactor, trip)
			}
			continue
		}
		granted++
		age := 100*time.Millisecond + trip // of the mark, when the message comes
		left := g - o.bounds.Drift(g) - age
		extended := ttl - o.bounds.Drift(ttl) - trip
		switch {
		case g > ttl || g < 400*time.Millisecond || g < min(8*trip, ttl):
			t.Fatalf("TTL %v, drift %v, round trip %v: g is %v", ttl, o.DriftFactor, trip, g)
		case left < wins && left < trip:
			t.Fatalf("TTL %v, drift %v, round trip %v: with a g of %v the votes last for %v, less than to extend them takes", ttl, o.DriftFactor, trip, g, left)
		case left < wins && extended < wins:
			t.Fatalf("TTL %v, drift %v, round trip %v: with a g of %v extended keys last for %v, want %v", ttl, o.DriftFactor, trip, g, extended, wins)
		case wins/4+trip >= wins:
			t.Fatalf("TTL %v, drift %v, round trip %v: a lease of %v ends before its first renewal", ttl, o.DriftFactor, trip, wins)
		}
	}
	if granted < 1000 {
		t.Errorf("of 100 000 settings %d allow a grant", granted)
	}
}
