package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// A program is one that was compiled for WebAssembly. Its runs may go on at the same time: they share nothing that changes.
type program struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// load compiles a program: see build.
func load(ctx context.Context, dir string, arguments ...string) (*program, error) {
	code, err := build(dir, arguments...)
	if err != nil {
		return nil, err
	}
	r := wazero.NewRuntime(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	p := &program{runtime: r}
	if p.code, err = r.CompileModule(ctx, code); err != nil {
		r.Close(ctx)
		return nil, err
	}
	return p, nil
}

func (p *program) close() { p.runtime.Close(context.Background()) }

// An outcome is what a run has printed, and an error if it has failed.
type outcome struct {
	text string
	err  error
}

func (o outcome) digest() [sha256.Size]byte { return sha256.Sum256([]byte(o.text)) }

func (o outcome) String() string {
	verdict := "passed"
	if o.err != nil {
		verdict = "FAILED (" + o.err.Error() + ")"
	}
	return fmt.Sprintf("%s, output %x", verdict, o.digest())[:len(verdict)+25] // 16 digits of it
}

// epoch is the time at which a run begins, in s. Any will do.
const epoch = 1_000_000_000

// run carries the program out. The same schedule gives the same outcome.
func (p *program) run(ctx context.Context, schedule int64, args ...string) outcome {
	var out bytes.Buffer
	// Time passes as the program asks for it, a µs each time, and as it sleeps.
	var now int64
	clock := func() int64 {
		now += 1000
		return now
	}
	var seed [32]byte
	copy(seed[:], fmt.Sprint(schedule))
	config := wazero.NewModuleConfig().WithName("").WithArgs(args...).WithStdout(&out).WithStderr(&out).
		WithRandSource(rand.NewChaCha8(seed)).
		WithNanotime(clock, sys.ClockResolution(1)).
		WithWalltime(func() (int64, int32) {
			t := clock()
			return epoch + t/1e9, int32(t % 1e9)
		}, sys.ClockResolution(1)).
		WithNanosleep(func(ns int64) { now += ns })
	m, err := p.runtime.InstantiateModule(ctx, p.code, config)
	if m != nil {
		m.Close(ctx)
	}
	if exit, ok := err.(*sys.ExitError); ok && exit.ExitCode() == 0 {
		err = nil
	}
	return outcome{out.String(), err}
}
