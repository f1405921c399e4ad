// Command example is a small service with metrics: each request to / takes a lock, and /metrics is for Prometheus.
//
//	REDLOCK_MASTERS=a:6379,b:6379,c:6379 example -listen :8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/promredlock"
)

func main() {
	listen := flag.String("listen", ":8080", "`address` to serve at")
	flag.Parse()
	client, handler, err := open(strings.Split(os.Getenv("REDLOCK_MASTERS"), ","))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: *listen, Handler: handler}
	go func() {
		<-ctx.Done()
		server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

// open returns a Client with metrics, and what the service serves.
func open(masters []string) (*redlock.Client, http.Handler, error) {
	metrics := promredlock.New(&promredlock.Options{
		NameLabel: func(name string) string { kind, _, _ := strings.Cut(name, ":"); return kind }, // few values
	})
	client, err := redlock.Open(masters, &redlock.Options{Trace: metrics.Trace()})
	if err != nil {
		return nil, nil, err
	}
	metrics.Watch(client)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		err := client.Locker("order:"+r.URL.Path).Do(r.Context(), func(context.Context) error {
			_, err := fmt.Fprintln(w, "done")
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return client, mux, nil
}
