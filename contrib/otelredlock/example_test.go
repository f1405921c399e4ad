package otelredlock_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/otelredlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A service gives New its MeterProvider, or sets the global one. This reader stands for an exporter. The masters
// are embedded ones.
func Example() {
	reader := sdkmetric.NewManualReader()
	telemetry, err := otelredlock.New(&otelredlock.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	masters := redlocktest.StartN(exampleTB{}, 3).Pools()
	client, err := redlock.New(masters, &redlock.Options{Trace: telemetry.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := telemetry.Watch(client); err != nil {
		log.Fatal(err)
	}
	stock := client.Locker("stock")
	stock.Lock()
	defer stock.Unlock()

	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		log.Fatal(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "redlock.lock.held" {
			fmt.Println(m.Name, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
		}
	}
	// Output: redlock.lock.held 1
}

// exampleTB is a testing.TB for examples. It has only the methods that they need.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                      {}
func (exampleTB) Cleanup(func())               {}
func (exampleTB) Fatalf(f string, args ...any) { log.Fatalf(f, args...) }
