package migration

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A scene is what a function of the document needs: masters, and a Client with default options, as its reader has it.
type scene struct {
	masters *redlocktest.Masters
	client  *redlock.Client
}

// runs calls each function in the document.
var runs = map[string]func(t *testing.T, s scene) error{
	"localStock.take": func(t *testing.T, s scene) error {
		return status((&localStock{}).take)
	},
	"stock.take": func(t *testing.T, s scene) error {
		return status((&stock{mu: s.client.Locker("stock")}).take)
	},
	"carefulStock.take": func(t *testing.T, s scene) error {
		return status((&carefulStock{mu: s.client.Locker("stock")}).take)
	},
	"serve": func(t *testing.T, s scene) error { return runServe(t, s) },
	"reportWithRedsync": func(t *testing.T, s scene) error {
		return reportWithRedsync(t.Context(), redsyncOn(s.masters))
	},
	"reportWithPostgres": func(t *testing.T, _ scene) error {
		db := sql.OpenDB(&postgres{owner: map[string]int{}})
		defer db.Close()
		return reportWithPostgres(t.Context(), db)
	},
	"reportWithRedlock": func(t *testing.T, s scene) error { return reportWithRedlock(t.Context(), s.client) },
	"tryReport":         func(t *testing.T, s scene) error { return tryReport(t.Context(), s.client) },
	"openBesideRedsync": func(t *testing.T, s scene) error {
		client, err := openBesideRedsync(s.masters.Pools())
		if err != nil {
			return err
		}
		defer client.Close()
		return reportWithRedlock(t.Context(), client)
	},
	"refreshWithOneServer": func(t *testing.T, s scene) error {
		other := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		defer other.Close()
		return refreshWithOneServer(t.Context(), redislock.New(other))
	},
	"refreshWithRedlock": func(t *testing.T, s scene) error { return refreshWithRedlock(t.Context(), s.client) },
	"leadWithRedlock":    func(t *testing.T, s scene) error { return leadWithRedlock(t.Context(), s.client) },
	"reportBesideRedisson": func(t *testing.T, s scene) error {
		return reportBesideRedisson(t.Context(), redlocktest.StartN(t, 1).Pools()[0], s.client)
	},
	"withRLock": nil, // reportBesideRedisson calls it; and see redisson_test.go
	// Options of other clients have tests of their own, in migration_test.go.
	"fromGoRedis": nil,
	"fromRueidis": nil,
	"masterURL":   nil,
	// It needs a quorum of etcd, and is only compiled.
	"leadWithEtcd": nil,
}

// status calls a handler and returns an error unless it has succeeded.
func status(handler http.HandlerFunc) error {
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusOK {
		return errors.New(w.Body.String())
	}
	return nil
}

func TestEachFunctionOfTheDocumentRunsWithDefaultOptions(t *testing.T) {
	document, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func (?:\(\w+ \*(\w+)\) )?(\w+)\(`)
	var functions []string
	for _, b := range codeBlock.FindAllStringSubmatch(string(document), -1) {
		for _, f := range function.FindAllStringSubmatch(b[1], -1) {
			name := f[2]
			if f[1] != "" {
				name = f[1] + "." + name
			}
			functions = append(functions, name)
		}
	}
	for name := range runs {
		if !slices.Contains(functions, name) {
			t.Errorf("%s is not in the document", name)
		}
	}
	for _, name := range functions {
		run, known := runs[name]
		if !known {
			t.Errorf("the test does not run %s of the document", name)
		}
		if run == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			masters := redlocktest.StartN(t, 3)
			client, err := redlock.Open(masters.URLs(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := run(t, scene{masters, client}); err != nil {
				t.Error(err)
			}
		})
	}
}

// runServe ends a server while a request holds the lock: the request is answered, and nothing panics.
func runServe(t *testing.T, s scene) error {
	inside, leave := make(chan struct{}), make(chan struct{})
	mu := s.client.Locker("stock")
	server := &http.Server{Addr: freeAddress(t), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		close(inside)
		<-leave
	})}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server, s.client) }()
	answered := make(chan error, 1)
	go func() {
		for {
			r, err := http.Get("http://" + server.Addr)
			if err != nil && !isRefused(err) {
				answered <- err
				return
			}
			if err == nil {
				r.Body.Close()
				answered <- nil
				return
			}
			time.Sleep(time.Millisecond) // it does not listen yet
		}
	}()
	select {
	case <-inside:
	case <-time.After(30 * time.Second):
		t.Fatal("no request has the lock")
	}
	stop()
	close(leave)
	return errors.Join(<-answered, <-served)
}

func isRefused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The document says what Lock does at the end of a service.
func TestLockPanicsIfTheClientIsClosedWhileItWaits(t *testing.T) {
	masters := redlocktest.StartN(t, 3)
	holder, client := masters.Open(nil), masters.Open(nil)
	holder.Locker("stock").Lock()
	panics := make(chan any, 1)
	go func() {
		defer func() { panics <- recover() }()
		client.Locker("stock").Lock()
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client.Shutdown(ctx)
	select {
	case p := <-panics:
		if p == nil {
			t.Error("Lock returned without the lock")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Lock waits on a closed Client")
	}
	if err := client.Locker("stock").Do(t.Context(), takeOne); !errors.Is(err, redlock.ErrClosed) {
		t.Errorf("Do = %v on a closed Client, want ErrClosed", err)
	}
}
