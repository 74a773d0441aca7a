package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The names of the targets, as -only and the table have them.
const (
	nameDirect = "direct"
	nameBare   = "bare"
	nameSQLite = "sqlite"
	nameRedis  = "redis"
)

// The names of what is measured of the stores alone.
const (
	nameAdmission = "admission"
	nameCost      = "cost"
	nameRecord    = "record"
)

// names are those that -only knows.
var names = []string{nameSQLite, nameRedis, nameBare, nameAdmission, nameCost, nameRecord}

// target is where the generator's calls go.
type target struct {
	name, title string
	addr, path  string
	pids        []int    // what stands in the way: a proxy, and its store's server
	proxy       *sidecar // nil for direct and bare
	sidecar     bool
}

// world is everything that runs during a measurement.
type world struct {
	dir     string
	agent   *child
	targets []*target
	notes   []string // what is left out, and why
	redis   *redisServer
	stops   []func() error
}

// newWorld starts it all. Close ends it, also if newWorld failed.
func newWorld(ctx context.Context, o options) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "a2a-bench-"); err != nil {
		return w, fmt.Errorf("making a directory: %w", err)
	}
	w.stops = append(w.stops, func() error { return os.RemoveAll(w.dir) })

	agent, agentAddr, err := startRole(ctx, w.dir, roleAgent, "")
	if err != nil {
		return w, err
	}
	w.agent = agent
	w.stops = append(w.stops, agent.stop)
	agentURL := "http://" + agentAddr
	bare, bareAddr, err := startRole(ctx, w.dir, roleBare, agentURL)
	if err != nil {
		return w, err
	}
	w.stops = append(w.stops, bare.stop)
	w.targets = []*target{
		{name: nameDirect, title: "direct", addr: agentAddr, path: "/"},
		{name: nameBare, title: "bare ReverseProxy", addr: bareAddr, path: "/", pids: []int{bare.pid()}},
	}
	if !o.only[nameSQLite] && !o.only[nameRedis] {
		return w, nil
	}
	bin, err := buildSidecar(ctx, w.dir, o.profiles != "")
	if err != nil {
		return w, err
	}
	if o.only[nameSQLite] {
		if err := w.addSidecar(ctx, nameSQLite, "sidecar, SQLite", bin, agentURL, "sqlite:"+filepath.Join(w.dir, "record.db")); err != nil {
			return w, err
		}
	}
	if !o.only[nameRedis] {
		return w, nil
	}
	if why := redisMissing(); why != "" {
		w.notes = append(w.notes, "redis is left out: "+why)
		return w, nil
	}
	if w.redis, err = startRedis(); err != nil { //nolint:contextcheck // it bounds itself
		return w, err
	}
	w.stops = append(w.stops, func() error { w.redis.Close(); return nil })
	err = w.addSidecar(ctx, nameRedis, "sidecar, Redis", bin, agentURL, w.redis.URL(), w.redis.pid)
	return w, err
}

// addSidecar starts a sidecar over a store, whose server may have a process.
func (w *world) addSidecar(ctx context.Context, name, title, bin, agentURL, store string, server ...int) error {
	s, err := startSidecar(ctx, w.dir, name, bin, agentURL, store)
	if err != nil {
		return err
	}
	w.stops = append(w.stops, s.stop)
	w.targets = append(w.targets, &target{
		name: name, title: title, addr: s.outbound, path: "/agents/" + agentName + "/",
		pids: append([]int{s.pid()}, server...), proxy: s, sidecar: true,
	})
	return nil
}

// close stops everything, newest first.
func (w *world) close() error {
	var errs []error
	for _, stop := range slices.Backward(w.stops) {
		errs = append(errs, stop())
	}
	w.stops = nil
	return errors.Join(errs...)
}

// quiet is how many cores others may use before the numbers say little.
const quiet = 0.2

// others begins to watch what programs other than ours use. What it returns
// tells the cores that they kept busy since; 0 where the system does not say.
func (w *world) others() func() float64 {
	pids := []int{os.Getpid(), w.agent.pid()}
	for _, t := range w.targets {
		pids = append(pids, t.pids...)
	}
	used := func() (time.Duration, error) {
		all, err := busyTime()
		for _, pid := range pids {
			ours, perr := cpuTime(pid)
			all, err = all-ours, errors.Join(err, perr)
		}
		return all, err
	}
	before, err := used()
	began := time.Now()
	return func() float64 {
		after, aerr := used()
		if err != nil || aerr != nil {
			return 0
		}
		return (after - before).Seconds() / time.Since(began).Seconds()
	}
}

// used is what each process of the target has used so far; nil where the system
// does not tell.
func (t *target) used() []time.Duration {
	used := make([]time.Duration, len(t.pids))
	for i, pid := range t.pids {
		var err error
		if used[i], err = cpuTime(pid); err != nil {
			return nil
		}
	}
	return used
}

// settle waits until the target's processes are idle: what they do after the
// answer, such as writing the record, is part of their cost and must not be
// the next target's.
func (t *target) settle(ctx context.Context) {
	const (
		look = 50 * time.Millisecond
		most = 10 * time.Second
	)
	before, idle := t.used(), 0
	for began := time.Now(); len(before) > 0 && idle < 2 && time.Since(began) < most; {
		if !pause(ctx, nil, look) {
			return
		}
		now := t.used()
		idle++
		for i := range min(len(now), len(before)) {
			if now[i] != before[i] {
				idle = 0
			}
		}
		before = now
	}
}
