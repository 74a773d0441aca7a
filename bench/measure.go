package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// streamConns are few, since an agent thinks while it streams.
const streamConns = 8

// reading is what one round gave for one target. NaN is what could not be read.
type reading struct {
	RPS      float64
	P50, P99 float64   // ms
	FirstP50 float64   // ms to the first event
	CPU      []float64 // seconds per 1000 calls, of the proxy and of its store's server
}

// MarshalJSON writes null for NaN, which JSON does not have.
func (r reading) MarshalJSON() ([]byte, error) {
	known := func(v float64) any {
		if math.IsNaN(v) {
			return nil
		}
		return v
	}
	return json.Marshal(map[string]any{
		"rps": known(r.RPS), "p50Ms": known(r.P50), "p99Ms": known(r.P99), "firstEventP50Ms": known(r.FirstP50), "cpuSecondsPer1k": r.CPU,
	})
}

// phase is one measurement of one target, within a round.
type phase struct {
	name string
	run  func(ctx context.Context, t *target, r *reading) error
}

// measure runs the whole benchmark. Progress goes to stderr.
func measure(ctx context.Context, o options, stderr io.Writer) (_ *result, err error) {
	// One for the schedule, which sleeps in the kernel (see sleepUntil).
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 1))
	say(stderr, "building and starting the targets\n")
	w, err := newWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()

	gen := &generator{salt: strconv.FormatUint(rand.Uint64(), 36), tree: uint64(o.tree)}
	var failed tally
	phases := phasesOf(gen, o, &failed)
	rounds := make([]map[string]*reading, o.rounds)
	others := w.others()
	for i := range rounds {
		began := time.Now()
		if rounds[i], err = round(ctx, i, w.targets, phases); err != nil {
			return nil, failure(fmt.Errorf("round %d: %w", i+1, err), &failed)
		}
		var rates strings.Builder
		for _, t := range w.targets {
			fmt.Fprintf(&rates, "  %s %.0f/s", t.name, rounds[i][t.name].RPS)
		}
		say(stderr, "round %d of %d:%s  (%.1f s)\n", i+1, o.rounds, &rates, time.Since(began).Seconds())
	}
	res := newResult(o, w, rounds)
	if cores := others(); cores > quiet {
		res.Notes = append(res.Notes, fmt.Sprintf("NOISY: other programs used %.1f of the %d cores meanwhile; only CPU per call means much", cores, runtime.NumCPU()))
	}
	if failed.n > 0 {
		res.Broken = append(res.Broken, fmt.Sprintf("%d calls failed, the first with: %v", failed.n, failed.first))
	}
	for _, t := range w.targets {
		if t.proxy == nil {
			continue
		}
		lost, err := t.proxy.gaveUp(ctx)
		if err != nil {
			return nil, err
		}
		if lost != "" {
			res.Broken = append(res.Broken, t.name+" did not record everything: "+lost)
		}
	}
	if o.profiles != "" {
		if err := profile(ctx, gen, w, o, &failed, stderr); err != nil {
			return nil, failure(err, &failed)
		}
	}
	return res, nil
}

// failure adds to err what went wrong with the calls.
func failure(err error, failed *tally) error {
	if failed.first == nil {
		return err
	}
	return fmt.Errorf("%w; the first of %d: %w", err, failed.n, failed.first)
}

func phasesOf(gen *generator, o options, failed *tally) []phase {
	return []phase{
		{"throughput", func(ctx context.Context, t *target, r *reading) error {
			before := t.used()
			rate, made, err := gen.saturate(ctx, t, o.conns, o.duration/4, o.duration, failed)
			if err != nil {
				return err
			}
			t.settle(ctx)
			r.RPS = rate
			after := t.used()
			for i := range min(len(before), len(after)) {
				r.CPU = append(r.CPU, (after[i]-before[i]).Seconds()/float64(made)*1000)
			}
			return nil
		}},
		{"latency", func(ctx context.Context, t *target, r *reading) error {
			taken, err := gen.steady(ctx, t, o.rate, o.duration, failed)
			t.settle(ctx)
			r.P50, r.P99 = milliseconds(taken, 50), milliseconds(taken, 99)
			return err
		}},
		{"streams", func(ctx context.Context, t *target, r *reading) error {
			taken, err := gen.streams(ctx, t, streamConns, o.duration/2, failed)
			t.settle(ctx)
			r.FirstP50 = milliseconds(taken, 50)
			return err
		}},
	}
}

// round takes every reading of every target once. Phase by phase, so that the
// readings that are compared lie close together in time; and each round begins
// with another target, so that none always follows the same one.
func round(ctx context.Context, n int, targets []*target, phases []phase) (map[string]*reading, error) {
	got := make(map[string]*reading, len(targets))
	for _, t := range targets {
		got[t.name] = &reading{RPS: math.NaN(), P50: math.NaN(), P99: math.NaN(), FirstP50: math.NaN()}
	}
	for _, p := range phases {
		for i := range targets {
			t := targets[(i+n)%len(targets)]
			if err := p.run(ctx, t, got[t.name]); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", p.name, t.name, err)
			}
		}
	}
	return got, nil
}

// profile saturates each proxy once more, and keeps its profile and the
// functions on top of it.
func profile(ctx context.Context, gen *generator, w *world, o options, failed *tally, stderr io.Writer) error {
	if err := os.MkdirAll(o.profiles, 0o755); err != nil {
		return fmt.Errorf("making the directory for profiles: %w", err)
	}
	length := max(o.duration, 10*time.Second)
	for _, t := range w.targets {
		if t.proxy == nil {
			continue
		}
		file := filepath.Join(o.profiles, t.name+".pprof")
		saved := make(chan error, 1)
		go func() { saved <- t.proxy.profile(ctx, length, file) }()
		_, _, err := gen.saturate(ctx, t, o.conns, 0, length, failed)
		if err := errors.Join(err, <-saved); err != nil {
			return err
		}
		t.settle(ctx)
		top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=60", file).Output()
		if err != nil {
			return fmt.Errorf("reading the profile %s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(o.profiles, t.name+".top.txt"), top, 0o644); err != nil {
			return fmt.Errorf("writing the top of a profile: %w", err)
		}
		say(stderr, "profile of %s: %s (go tool pprof -http=: %s)\n", t.name, file, file)
	}
	return nil
}
