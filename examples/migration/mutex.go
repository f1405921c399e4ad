package migration

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// A stock before the second replica.
type localStock struct {
	mu sync.Mutex
}

func (s *localStock) take(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	takeOne(r.Context())
}

// A stock of several replicas. The field is a sync.Locker: nothing else changes.
type stock struct {
	mu *redlock.Locker // client.Locker("stock")
}

func (s *stock) take(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	takeOne(r.Context())
}

// A stock whose requests do not wait without end, and stop working if the lease is lost.
type carefulStock struct {
	mu *redlock.Locker
}

func (s *carefulStock) take(w http.ResponseWriter, r *http.Request) {
	err := s.mu.Do(r.Context(), takeOne)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// serve serves until ctx ends. First no request is left, then the Client is closed.
func serve(ctx context.Context, server *http.Server, client *redlock.Client) error {
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- errors.Join(server.Shutdown(limited), client.Shutdown(limited))
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func takeOne(ctx context.Context) error { return ctx.Err() }
