package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// cost is what a recorded call costs Redis in a tree of a size, on average.
type cost struct {
	Sessions int     `json:"sessions"`
	Sent     float64 `json:"commandsSent"`
	Inside   float64 `json:"commandsWithinScripts"`
	In       float64 `json:"bytesIn"`
	Out      float64 `json:"bytesOut"`
	CPU      float64 `json:"serverMicros"`
}

// measureCosts has trees grow, and counts at some sizes what calls cost that go
// through the record, one after the other.
func measureCosts(ctx context.Context, short bool) (all []cost, err error) {
	srv, err := redistest.Launch() //nolint:contextcheck // it bounds itself
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	wire, err := countInFrontOf(srv.Addr())
	if err != nil {
		return nil, err
	}
	defer closing(&err, wire.close)
	store, err := openRedis(ctx, "redis://"+wire.addr())
	if err != nil {
		return nil, err
	}
	defer closing(&err, store.Close)
	rec, err := newRecord(ctx, store)
	if err != nil {
		return nil, err
	}
	defer closing(&err, func() error { return rec.Close(ctx) })
	info := plainClient(srv)
	defer closing(&err, info.Close)

	sizes := []int{10, 1000, 50_000}
	if short {
		sizes[2] = 10_000
	}
	for _, size := range sizes {
		root := fmt.Sprintf("costs-%d", size)
		if err := grow(ctx, store, root, size); err != nil {
			return nil, err
		}
		c, err := costOf(ctx, rec, root, wire, info)
		if err != nil {
			return nil, err
		}
		c.Sessions = size
		all = append(all, c)
	}
	return all, nil
}

// grow makes a tree of a size, in which nothing runs.
func grow(ctx context.Context, store sessions.Store, root string, size int) error {
	const batch = 64
	for made := 1; made < size; made += batch { // 1: the root
		ops := make([]*sessions.Op, min(batch, size-made))
		for i := range ops {
			ops[i] = admit(root, 0)
		}
		if err := apply(ctx, store, ops); err != nil {
			return err
		}
		if err := apply(ctx, store, ends(ops)); err != nil {
			return err
		}
	}
	return nil
}

// costOf records some calls in a tree. The first few, which fill caches and
// connect, do not count.
func costOf(ctx context.Context, rec *sessions.Record, root string, wire *counter, info *goredis.Client) (cost, error) {
	const warm, calls = 10, 500
	run := func(n int) error {
		for range n {
			if err := record(ctx, rec, root); err != nil {
				return err
			}
		}
		_, err := rec.Reader().Tree(ctx, root) // comes after all that was recorded
		return err
	}
	if err := run(warm); err != nil {
		return cost{}, err
	}
	var before, after usage
	if err := before.read(ctx, info, wire); err != nil {
		return cost{}, err
	}
	if err := run(calls); err != nil {
		return cost{}, err
	}
	if err := after.read(ctx, info, wire); err != nil {
		return cost{}, err
	}
	each := func(n float64) float64 { return n / calls }
	sent := after.sent - before.sent
	return cost{
		Sent: each(sent), Inside: each(after.commands - before.commands - sent),
		In: each(after.in - before.in), Out: each(after.out - before.out), CPU: each(after.micros - before.micros),
	}, nil
}

// usage is what the store has used so far.
type usage struct {
	sent, in, out float64 // over the wire
	commands      float64 // at the server, those within scripts included and ours left out
	micros        float64 // of the server's processor
}

func (u *usage) read(ctx context.Context, info *goredis.Client, wire *counter) error {
	commands, in, out := wire.counts()
	u.sent, u.in, u.out = float64(commands), float64(in), float64(out)
	text, err := info.Info(ctx, "commandstats", "cpu").Result()
	if err != nil {
		return fmt.Errorf("asking Redis for its statistics: %w", err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "cmdstat_info": // this question
		case strings.HasPrefix(name, "cmdstat_"):
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, err := strconv.ParseFloat(calls, 64)
			if err != nil {
				return fmt.Errorf("reading INFO commandstats: %w", err)
			}
			u.commands += n
		case name == "used_cpu_user_main_thread", name == "used_cpu_sys_main_thread":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("reading INFO cpu: %w", err)
			}
			u.micros += 1e6 * n
		}
	}
	return nil
}
