package redlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock/internal/reasons"
)

// LogTrace returns a Trace that logs each event at level Debug, and losses at level Warn, with the
// context of the event. A nil logger means slog.Default(). It is for finding out what happens; what a
// service should always log, Options.Logger receives anyway.
func LogTrace(logger *slog.Logger) *Trace {
	if logger == nil {
		logger = slog.Default()
	}
	debug := func(ctx context.Context, event string, attrs ...slog.Attr) {
		logger.LogAttrs(ctx, slog.LevelDebug, "redlock: "+event, attrs...)
	}
	return &Trace{
		LockStart: func(ctx context.Context, i LockStartInfo) {
			debug(ctx, "lock: start", slog.String("name", i.Name))
		},
		AttemptDone: func(ctx context.Context, i AttemptInfo) {
			debug(ctx, "attempt", slog.String("name", i.Name), text("elapsed", i.Elapsed), failure(i.Err))
		},
		LockDone: func(ctx context.Context, i LockDoneInfo) {
			debug(ctx, "lock: done", slog.String("name", i.Name), text("waited", i.Waited), slog.Int("attempts", i.Attempts), failure(i.Err))
		},
		HandedOver: func(ctx context.Context, i HandedOverInfo) {
			debug(ctx, "handed over", slog.String("name", i.Name), text("held", i.Held), slog.Time("until", i.Until), fence(i.Fence))
		},
		Acquired: func(ctx context.Context, i AcquiredInfo) {
			debug(ctx, "acquired", slog.String("name", i.Name), text("waited", i.Waited), slog.Time("until", i.Until),
				slog.Int("rounds", i.Rounds), fence(i.Fence))
		},
		Renewed: func(ctx context.Context, i RenewedInfo) {
			debug(ctx, "renewed", slog.String("name", i.Name), text("elapsed", i.Elapsed), slog.Time("until", i.Until))
		},
		Released: func(ctx context.Context, i ReleasedInfo) {
			debug(ctx, "released", slog.String("name", i.Name), text("held", i.Held), failure(i.Err))
		},
		Lost: func(ctx context.Context, i LostInfo) {
			logger.LogAttrs(ctx, slog.LevelWarn, "redlock: lost", slog.String("name", i.Name), text("held", i.Held), failure(i.Err))
		},
		MasterChanged: func(ctx context.Context, i MasterStatus) {
			debug(ctx, "master changed", slog.String("master", i.Name), slog.String("state", i.State.String()), failure(i.Err))
		},
	}
}

// text is a duration as text, also in JSON.
func text(key string, d time.Duration) slog.Attr { return slog.String(key, d.String()) }

// failure is an error's attribute, or none.
func failure(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("err", reasons.OneLine(err))
}

// fence is a fence's attribute, or none.
func fence(f uint64) slog.Attr {
	if f == 0 {
		return slog.Attr{}
	}
	return slog.Uint64("fence", f)
}
