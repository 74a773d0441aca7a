package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// The aims of the stores, printed beside what was measured.
const (
	aimFew      = 1.5  // admission ÷ HSET at fewChildren
	aimMany     = 2.0  // at manyChildren
	aimRecorded = 5000 // calls per second, SQLite
)

// stores is what the stores cost by themselves, without a proxy, in this
// process. Nil and zero is what was not measured.
type stores struct {
	Admissions []admission `json:"admissions,omitempty"`
	Costs      []cost      `json:"costs,omitempty"`
	Recorded   []recorded  `json:"recorded,omitempty"`
	Notes      []string    `json:"notes,omitempty"`
}

// ofStores reports whether -only asks for anything that is measured here.
func (o options) ofStores() bool {
	return o.only[nameAdmission] || o.only[nameCost] || o.only[nameRecord]
}

// ofProxies reports whether -only asks for anything that is measured through a
// proxy.
func (o options) ofProxies() bool { return o.only[nameSQLite] || o.only[nameRedis] || o.only[nameBare] }

// measureStores takes all measurements of the stores that -only asks for.
func measureStores(ctx context.Context, o options, say func(string, ...any)) (*stores, error) {
	s := &stores{}
	why := redisMissing()
	if why != "" {
		s.Notes = append(s.Notes, "admissions and their cost at Redis are left out: "+why)
	}
	if o.only[nameAdmission] && why == "" {
		say("admissions beside HSETs, at the same Redis\n")
		var err error
		if s.Admissions, err = measureAdmissions(ctx, o.short); err != nil {
			return nil, fmt.Errorf("measuring admissions: %w", err)
		}
	}
	if o.only[nameCost] && why == "" {
		say("what a recorded call costs Redis, in trees that grow\n")
		var err error
		if s.Costs, err = measureCosts(ctx, o.short); err != nil {
			return nil, fmt.Errorf("measuring the cost of calls: %w", err)
		}
	}
	if o.only[nameRecord] {
		say("calls recorded in SQLite\n")
		var err error
		if s.Recorded, err = measureRecorded(ctx, o.short); err != nil {
			return nil, fmt.Errorf("measuring recorded calls: %w", err)
		}
	}
	return s, nil
}

// openRedis opens the store at url.
func openRedis(ctx context.Context, url string) (*redis.Store, error) {
	return redis.Open(ctx, redis.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
}

// apply carries out ops, as many at a time as the record does at most, and
// returns the first error.
func apply(ctx context.Context, s sessions.Store, ops []*sessions.Op) error {
	const batch = 128
	for len(ops) > 0 {
		n := min(len(ops), batch)
		s.Apply(ctx, ops[:n])
		for _, op := range ops[:n] {
			if op.Err != nil {
				return op.Err
			}
		}
		ops = ops[n:]
	}
	return ctx.Err()
}

// closing adds the error of ending something to another.
func closing(err *error, end func() error) { *err = errors.Join(*err, end()) }

func (s *stores) write(out *bytes.Buffer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	flush := func() { _ = t.Flush() } // a buffer takes it all
	if len(s.Admissions) > 0 {
		fmt.Fprintf(out, "\nan admission beside a plain HSET, one at a time, at the same Redis\n")
		_, _ = fmt.Fprintf(t, "live children\tHSET µs\tadmission µs\t÷ HSET\taim\t\n")
		for _, a := range s.Admissions {
			_, _ = fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.2f\t≤ %.1f\t\n", a.Children, a.HSET, a.Admission, a.Ratio, a.aim())
		}
		flush()
	}
	if len(s.Costs) > 0 {
		fmt.Fprintf(out, "\nwhat Redis has to do for one recorded, isolated call: admission, task, artifact, end\n")
		_, _ = fmt.Fprintf(t, "sessions in the tree\tcommands sent\twithin scripts\tbytes in\tbytes out\tserver µs\t\n")
		for _, c := range s.Costs {
			_, _ = fmt.Fprintf(t, "%d\t%.2f\t%.1f\t%.0f\t%.0f\t%.0f\t\n", c.Sessions, c.Sent, c.Inside, c.In, c.Out, c.CPU)
		}
		flush()
	}
	if len(s.Recorded) > 0 {
		fmt.Fprintf(out, "\ncalls recorded in full in SQLite, on disk: admission, task, artifact, end (aim ≥ %d/s)\n", aimRecorded)
		for _, r := range s.Recorded {
			_, _ = fmt.Fprintf(t, "%s\t%.0f/s\t%.0f µs of CPU each\t\n", r.How, r.PerSecond, r.CPU)
		}
		flush()
	}
	for _, n := range s.Notes {
		fmt.Fprintln(out, n)
	}
}

// waiting is how long the stores may take for anything here.
const waiting = 30 * time.Second
