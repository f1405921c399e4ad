package redlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// The example of the package comment.
func TestReadersLoseTheirLeaseWhenMastersForget(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		catalogue := masters.Open(nil).RWLocker("catalogue")
		err := catalogue.RLocker().Do(t.Context(), func(ctx context.Context) error {
			for i := range 3 {
				masters.Master(i).Forget()
			}
			<-ctx.Done() // at the next renewal
			return context.Cause(ctx)
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do = %v, want ErrLost", err)
		}
	})
}

func TestAWriterGetsTheLockOfReadersWhateverTheFaultOfOneMaster(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(m *redlocktest.Master)
	}{
		{"a dead master", (*redlocktest.Master).Stop},
		{"a frozen master", (*redlocktest.Master).Freeze},
		{"a slow master", func(m *redlocktest.Master) { m.Delay(time.Second) }},
		{"a failing master", func(m *redlocktest.Master) { m.Fail("LOADING") }},
		{"a lost request", func(m *redlocktest.Master) { m.DropRequest("EVALSHA") }},
		{"a lost reply", func(m *redlocktest.Master) { m.LoseReply("EVALSHA") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				masters := redlocktest.StartN(t, 3)
				reader, writer := masters.Open(nil).RWLocker("catalogue"), masters.Open(nil).RWLocker("catalogue")
				reader.RLock()
				synctest.Wait()
				if got, _ := masters.Master(0).Get("catalogue"); got != "redlock:readers" {
					t.Errorf("while a goroutine reads, the key holds %q", got)
				}
				row.fault(masters.Master(2))
				go func() {
					time.Sleep(time.Second)
					reader.RUnlock()
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := writer.Locker().LockContext(ctx); err != nil {
					t.Fatal(err)
				}
				if reader.TryRLock() {
					t.Error("a goroutine reads beside the writer")
				}
				writer.Unlock()
			})
		})
	}
}
