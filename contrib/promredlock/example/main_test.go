package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestTheServiceCountsItsLocks(t *testing.T) {
	client, handler, err := open(redlocktest.StartN(t, 3).URLs())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	get := func(path string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	for range 2 {
		if body := get("/17"); body != "done\n" {
			t.Fatalf("GET /17 = %q", body)
		}
	}
	if body, want := get("/metrics"), `redlock_lock_requests_total{name="order",outcome="acquired"} 2`; !strings.Contains(body, want) {
		t.Errorf("no %s in:\n%s", want, body)
	}
}
