package main

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestThePoolsServeLocksAndOtherCode(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 3)
	var pools []*redis.Pool
	var names []string
	for _, s := range servers {
		pools, names = append(pools, newPool(s.Addr())), append(names, s.Addr())
		defer pools[len(pools)-1].Close()
	}
	for range 2 {
		if err := run(pools, names); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := redis.Int(servers[0].Do("GET", "visits")); n != 2 || err != nil {
		t.Errorf("visits = %d, %v, want 2", n, err)
	}
	for _, s := range servers {
		if n, err := redis.Int(s.Do("EXISTS", "locks:visits")); n != 0 || err != nil {
			t.Errorf("the lock's key is left: %d, %v", n, err)
		}
	}
}
