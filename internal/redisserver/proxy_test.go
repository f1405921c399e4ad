package redisserver

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestAProxyHidesThatItsServerIsAnotherIfItIsTo(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		servers := StartTB(t, 2)
		must(t, servers[1], "OK", "SET", "who", "the other")
		p := ProxyTB(t, servers[0].Addr())
		if keeps {
			p.Keep()
		}
		c, err := redis.Dial("tcp", p.Addr(), redis.DialReadTimeout(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Do("GET", "who"); err != nil {
			t.Fatal(err)
		}
		servers[0].Kill()
		p.Aim(servers[1].Addr())
		if got, err := redis.String(c.Do("GET", "who")); keeps && got != "the other" || !keeps && err == nil {
			t.Errorf("keeping connections, %v: GET = %q, %v", keeps, got, err)
		}
		later, err := redis.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer later.Close()
		if got, err := redis.String(later.Do("GET", "who")); err != nil || got != "the other" {
			t.Errorf("a new connection: GET = %q, %v, want the other", got, err)
		}
	}
}

func TestAProxyDelaysBothDirectionsAndKeepsTheOrder(t *testing.T) {
	servers := StartTB(t, 1)
	p := ProxyTB(t, servers[0].Addr())
	c, err := redis.Dial("tcp", p.Addr(), redis.DialReadTimeout(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ping := func() time.Duration {
		start := time.Now()
		if _, err := c.Do("PING"); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	ping()
	const d = 30 * time.Millisecond
	p.Delay(d)
	if took := ping(); took < 2*d {
		t.Errorf("a round trip took %v, want %v at least", took, 2*d)
	}
	for i := range 20 {
		c.Send("SET", "n", i)
		c.Flush()
	}
	p.Delay(0) // what is sent from now on must not overtake what was sent before
	if n, err := redis.Int(c.Do("GET", "n")); err != nil || n != 19 {
		t.Errorf("GET = %d, %v, want the last of 20 SETs", n, err)
	}
	p.Delay(d)
	c.Send("SET", "n", "last")
	c.Flush()
	c.Close() // what was sent before must still arrive
	p.Delay(0)
	direct, err := redis.Dial("tcp", servers[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if v, _ := redis.String(direct.Do("GET", "n")); v == "last" {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("what was sent before the client closed has not arrived")
		}
	}
}
