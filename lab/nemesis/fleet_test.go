package main

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/programs"
)

func TestTheClockOfOneMasterIsSet(t *testing.T) {
	programs.Need(t, "redis-server")
	f, err := startFleet(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	if !f[1].steps {
		t.Skip("there is no libfaketime")
	}
	const offset = 1000 * time.Second
	if err := f[1].setClock(offset); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{0, offset} {
		got, err := redis.Int64s(f[i].Do("TIME"))
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(got[0], 0)); (off - want).Abs() > 100*time.Second {
			t.Errorf("the clock of master %d is off by %v, want %v", i, off, want)
		}
	}
}
