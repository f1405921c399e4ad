package contract_test

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// somePool returns a pool for tests that do not connect.
func somePool() *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("not here") }}
}

const week = 7 * 24 * time.Hour

// TestEveryDurationHasBounds finds the fields by reflection, so that it covers every one.
func TestEveryDurationHasBounds(t *testing.T) {
	fields := 0
	for _, row := range []struct {
		kind   string
		fields reflect.Type
		field  func(o *redlock.Options, i int) reflect.Value
	}{
		{"Options", reflect.TypeFor[redlock.Options](), func(o *redlock.Options, i int) reflect.Value { return reflect.ValueOf(o).Elem().Field(i) }},
		{"LockOptions", reflect.TypeFor[redlock.LockOptions](), func(o *redlock.Options, i int) reflect.Value { return reflect.ValueOf(&o.LockOptions).Elem().Field(i) }},
	} {
		for i := range row.fields.NumField() {
			f := row.fields.Field(i)
			if f.Type != reflect.TypeFor[time.Duration]() || !f.IsExported() {
				continue
			}
			fields++
			name := row.kind + "." + f.Name
			for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second, math.MaxInt64 / 2, 370 * 24 * time.Hour} {
				wantRefused(t, func(o *redlock.Options) { row.field(o, i).SetInt(int64(d)) }, name)
			}
			for _, d := range []time.Duration{1, 30, 5000, time.Millisecond - 1} {
				wantRefused(t, func(o *redlock.Options) { row.field(o, i).SetInt(int64(d)) }, name+" is "+d.String()+": is the unit missing?")
			}
		}
	}
	if fields < 7 {
		t.Errorf("%d durations were seen, want 7 at least", fields)
	}
}

// wantRefused fails t unless New refuses Options by an error with this text.
func wantRefused(t *testing.T, set func(*redlock.Options), want string) {
	t.Helper()
	var opts redlock.Options
	set(&opts)
	c, err := redlock.New([]*redis.Pool{somePool()}, &opts)
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("New = %v, want an error with %q", err, want)
	}
}

func TestTheShortestDurationsArePossible(t *testing.T) {
	const ms = time.Millisecond
	c, err := redlock.New([]*redis.Pool{somePool()}, &redlock.Options{
		LockOptions: redlock.LockOptions{RenewEvery: ms, MaxHold: ms, Handover: ms, Keep: ms}, NodeTimeout: ms, DialTimeout: ms,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.NewLocker("a", &redlock.LockOptions{RenewEvery: -1, MaxHold: -1, Handover: -1}); err != nil {
		t.Errorf("negative durations, which switch something off: %v", err)
	}
}

func TestTheLongestDurationsArePossible(t *testing.T) {
	c, err := redlock.New([]*redis.Pool{somePool()}, &redlock.Options{
		LockOptions: redlock.LockOptions{TTL: week, RenewEvery: 2 * 24 * time.Hour, MaxHold: 365 * 24 * time.Hour, Handover: week, Fencing: true},
		MaxTTL:      week, NodeTimeout: 24 * time.Hour, DialTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestBadOptionsAreErrorsThatNameTheField(t *testing.T) {
	for _, row := range []struct {
		name string
		opts redlock.Options
		want string
	}{
		{"negative TTL", redlock.Options{LockOptions: redlock.LockOptions{TTL: -1}}, "LockOptions.TTL is negative"},
		{"TTL below a millisecond", redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Microsecond}}, "LockOptions.TTL is 1µs: is the unit missing? The least is 1ms"},
		{"TTL not above drift and NodeTimeout", redlock.Options{LockOptions: redlock.LockOptions{TTL: 52 * time.Millisecond}}, "LockOptions.TTL of 52ms leaves no validity after drift and NodeTimeout"},
		{"TTL above MaxTTL", redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Minute}, MaxTTL: time.Second}, "LockOptions.TTL of 1m0s is above Options.MaxTTL of 1s"},
		{"negative NodeTimeout", redlock.Options{NodeTimeout: -time.Second}, "Options.NodeTimeout is negative: -1s"},
		{"negative DialTimeout", redlock.Options{DialTimeout: -1}, "Options.DialTimeout is negative"},
		{"negative MaxTTL", redlock.Options{MaxTTL: -1}, "Options.MaxTTL is negative"},
		{"negative DriftFactor", redlock.Options{DriftFactor: -0.1}, "Options.DriftFactor is -0.1"},
		{"DriftFactor of one", redlock.Options{DriftFactor: 1}, "Options.DriftFactor is 1"},
		{"DriftFactor not a number", redlock.Options{DriftFactor: math.NaN()}, "Options.DriftFactor is NaN"},
		{"TTL above a week", redlock.Options{LockOptions: redlock.LockOptions{TTL: week + 1}}, "LockOptions.TTL is 168h0m0.000000001s, above the limit of 168h0m0s"},
		{"TTL beyond counting", redlock.Options{LockOptions: redlock.LockOptions{TTL: math.MaxInt64}, MaxTTL: week}, "LockOptions.TTL is 2562047h47m16.854775807s, above the limit"},
		{"MaxTTL above a week", redlock.Options{MaxTTL: week + 1}, "Options.MaxTTL is 168h0m0.000000001s, above the limit of 168h0m0s"},
		{"MaxTTL beyond counting", redlock.Options{MaxTTL: math.MaxInt64}, "Options.MaxTTL is 2562047h47m16.854775807s, above the limit"},
		{"NodeTimeout beyond counting", redlock.Options{NodeTimeout: math.MaxInt64}, "Options.NodeTimeout is 2562047h47m16.854775807s, above the limit"},
		{"DialTimeout beyond counting", redlock.Options{DialTimeout: math.MaxInt64}, "Options.DialTimeout is 2562047h47m16.854775807s, above the limit"},
		{"RenewEvery beyond counting", redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: math.MaxInt64}}, "LockOptions.RenewEvery is 2562047h47m16.854775807s, above the limit"},
		{"MaxHold above a year", redlock.Options{LockOptions: redlock.LockOptions{MaxHold: 366 * 24 * time.Hour}}, "LockOptions.MaxHold is 8784h0m0s, above the limit of 8760h0m0s"},
		{"Handover beyond counting", redlock.Options{LockOptions: redlock.LockOptions{Handover: math.MaxInt64}}, "LockOptions.Handover is 2562047h47m16.854775807s, above the limit"},
		{"a Prefix of redlock's own keys", redlock.Options{Prefix: "redlock:shop:"}, `Options.Prefix is "redlock:shop:", and keys that begin with "redlock:" are reserved`},
		{"too few names", redlock.Options{Names: []string{"a"}}, "Options.Names has 1 names for 3 masters"},
		{"a name twice", redlock.Options{Names: []string{"a", "b", "a"}}, `Options.Names has an empty or repeated name: "a"`},
		{"an empty name", redlock.Options{Names: []string{"a", "", "c"}}, `Options.Names has an empty or repeated name: ""`},
	} {
		c, err := redlock.New([]*redis.Pool{somePool(), somePool(), somePool()}, &row.opts)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "redlock: ") {
			t.Errorf("%s: New = %v, want %q", row.name, err, row.want)
		}
	}
}

func TestBadPoolsAreErrors(t *testing.T) {
	twice := somePool()
	one := somePool()
	one.MaxActive = 1
	for _, row := range []struct {
		name  string
		pools []*redis.Pool
		want  string
	}{
		{"none", nil, "no masters given"},
		{"nil", []*redis.Pool{somePool(), nil}, "pool 2 is nil"},
		{"the same twice", []*redis.Pool{twice, somePool(), twice}, "pools 1 and 3 are the same"},
		{"one connection only", []*redis.Pool{one}, "pool 1 has a MaxActive of 1"},
		{"no Dial", []*redis.Pool{{}}, "pool 1 has neither Dial nor DialContext"},
		{"too many", make([]*redis.Pool, 65), "the limit is 64"},
	} {
		if len(row.pools) == 65 {
			for i := range row.pools {
				row.pools[i] = somePool()
			}
		}
		c, err := redlock.New(row.pools, nil)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: New = %v, want %q", row.name, err, row.want)
		}
	}
}

func TestNewLockerChecksNamesAndOptions(t *testing.T) {
	c, err := redlock.New([]*redis.Pool{somePool()}, &redlock.Options{Prefix: "red"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, row := range []struct {
		name string
		opts *redlock.LockOptions
		want string
	}{
		{"", nil, "a lock needs a name"},
		{"lock:a", nil, `the key "redlock:a" begins with "redlock:", which is reserved`},
		{"a", &redlock.LockOptions{TTL: time.Hour}, "LockOptions.TTL of 1h0m0s is above Options.MaxTTL of 10s"},
		{"a", &redlock.LockOptions{TTL: -1}, "LockOptions.TTL is negative"},
	} {
		if _, err := c.NewLocker(row.name, row.opts); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("NewLocker(%q, %+v) = %v, want %q", row.name, row.opts, err, row.want)
		}
	}
	if _, err := c.NewLocker("a", nil); err != nil {
		t.Errorf("NewLocker with nil options = %v", err)
	}
}

func TestOptionsAreCopied(t *testing.T) {
	opts := &redlock.Options{Names: []string{"a", "b"}}
	c, err := redlock.New([]*redis.Pool{somePool(), somePool()}, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	opts.Names[0] = "changed"
	if got := c.Masters()[0].Name; got != "a" {
		t.Errorf("the master is called %q, want a", got)
	}
}

func TestOpenChecksURLs(t *testing.T) {
	const secret = "s3cr3t"
	for _, row := range []struct {
		urls []string
		want string // "" if they are valid
	}{
		{[]string{"127.0.0.1:1", "redis://127.0.0.1:2", "rediss://user:s3cr3t@host.example:3/2", "unix:///run/a.sock", "unix://user:s3cr3t@/run/b.sock?db=3", "redis://[::1]:4", "redis://:s3cr3t@localhost"}, ""},
		{[]string{"127.0.0.1:1", " 127.0.0.1:2", "\tredis://127.0.0.1:3\n"}, ""},
		{[]string{"a:1", " redis://x:s3cr3t@a:1 "}, "URLs 1 and 2 have the same address a:1"},
		{[]string{"a:1", " "}, "URL 2: empty"},
		{[]string{}, "no masters given"},
		{[]string{"a:1", "redis://x:s3cr3t@a:1/3"}, "URLs 1 and 2 have the same address a:1"},
		{[]string{"localhost"}, "URL 1: neither a URL nor host:port"},
		{[]string{"user:s3cr3t@host:1"}, "URL 1: neither a URL nor host:port"},
		{[]string{"a:1", "redis://x:s3cr3t@h:port"}, "URL 2: not a valid URL"},
		{[]string{"redis://x:s3cr3t%zz@h:1"}, "URL 1: not a valid URL"},
		{[]string{"redis://s3cr3t@h:1"}, "URL 1: a user without a password"},
		{[]string{"http://x:s3cr3t@h:1"}, "URL 1: unknown scheme"},
		{[]string{"redis://x:s3cr3t@/1"}, "URL 1: no host"},
		{[]string{"redis://x:s3cr3t@h:1/a"}, "URL 1: the database is not a number"},
		{[]string{"redis://h:1/-1"}, "URL 1: the database is not a number"},
		{[]string{"redis://h:1/1?db=2"}, "URL 1: two databases"},
		{[]string{"redis://h:1?password=s3cr3t"}, "URL 1: unknown parameter, only db is known"},
		{[]string{"redis://user:12?s3cr3t@h:6379"}, "URL 1: unknown parameter"},
		{[]string{"redis://user:12#s3cr3t@h:6379"}, "URL 1: a # must be written as %23"},
		{[]string{"unix://run/a.sock"}, "URL 1: a unix URL needs an absolute path"},
	} {
		c, err := redlock.Open(row.urls, &redlock.Options{Logger: quiet()})
		if err == nil {
			c.Close()
		}
		switch {
		case row.want == "" && err != nil:
			t.Errorf("Open(%q) = %v", row.urls, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("Open(%q) = %v, want %q", row.urls, err, row.want)
		case err != nil && strings.Contains(err.Error(), secret):
			t.Errorf("Open(%q) prints the password: %v", row.urls, err)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestTheLongestMaxTTLKeepsTheRestartGuardOn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).Forget()
		}
		c := ms.Open(&redlock.Options{MaxTTL: week})
		start := time.Now()
		if c.Locker("a").TryLock() {
			t.Error("masters that may have forgotten locks granted one")
		}
		synctest.Wait() // until the last master is connected, too
		for _, m := range c.Masters() {
			if left := m.Until.Sub(start); m.State != redlock.MasterQuarantined || left < week || left > week+3*time.Second {
				t.Errorf("%s is %v for %v, want quarantined for a week and 2s", m.Name, m.State, left)
			}
		}
	})
}
