package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// world is a system under load: a store, the sidecars over it, the agents, and
// the coordinators' caller.
type world struct {
	name        string
	say         *teller
	dir         string
	store       *store
	ledger      *ledger
	tally       *tally
	gate        *gate
	sidecars    []*sidecar
	agents      []*agent
	coordinator *caller
	struck      map[string]int // faults, by name
}

// settings are the parts of a sidecar's configuration that differ.
type settings struct {
	sidecars    int // 0: as many as the store takes
	onStoreDown string
	ttl         time.Duration // of every session
	reconcile   time.Duration
	queue       time.Duration
}

// chaosSettings: with onStoreDown: refuse the caps hold always, for nothing goes
// on without the store. Sessions live so short that what a killed sidecar leaves
// behind ends within the time that a run of chaos has.
var chaosSettings = settings{onStoreDown: "refuse", ttl: 20 * time.Second, reconcile: 2 * time.Second, queue: 3 * time.Second}

const (
	lease = 30 * time.Second // of the sidecars, which cannot be configured
	grace = 5 * time.Second
)

// newWorld starts a world. Close ends it, also if newWorld failed.
func (l *lab) newWorld(ctx context.Context, name, kind string, set settings, r *rand.Rand) (w *world, err error) {
	ledger := newLedger(maxChildren, map[string]int{agentScarce: maxConcurrent})
	w = &world{
		name: name, say: l.say, dir: l.dir, ledger: ledger, tally: newTally(), gate: newGate(), struck: map[string]int{},
	}
	if w.store, err = openers[kind](l.dir, ledger); err != nil {
		return w, err
	}
	// The agents know the sidecars and the sidecars the agents; the agents' part
	// in that is filled in before the first call.
	onward := newCaller(nil, w.tally, ledger, rand.New(rand.NewPCG(r.Uint64(), 1)))
	for _, agent := range []string{agentWorker, agentWriter, agentLead, agentScarce, agentAsker} {
		a, err := startAgent(ctx, agent, ledger, w.gate, onward)
		if err != nil {
			return w, err
		}
		w.agents = append(w.agents, a)
	}
	config := w.config(set)
	for i := range cmp.Or(set.sidecars, w.store.sidecars) {
		s, err := newSidecar(i, l.dir, name, l.bin, l.env, config, ledger)
		if err != nil {
			return w, err
		}
		if err := s.start(ctx); err != nil {
			return w, err
		}
		w.sidecars = append(w.sidecars, s)
	}
	onward.sidecars = w.sidecars
	w.coordinator = newCaller(w.sidecars, w.tally, ledger, rand.New(rand.NewPCG(r.Uint64(), 2)))
	return w, nil
}

// config is that of each sidecar.
func (w *world) config(set settings) object {
	var agents []object
	for _, a := range w.agents {
		o := object{
			"name": a.name, "url": a.url, "isolateSessions": true, "kind": "branch",
			"ttl": set.ttl.String(), "reconcile": set.reconcile.String(),
		}
		switch a.name {
		case agentWorker:
			o["kind"] = "worker"
		case agentScarce:
			o["kind"], o["limits"] = "worker", object{"maxConcurrent": maxConcurrent}
		case agentWriter:
			o["isolateSessions"] = false
		}
		agents = append(agents, o)
	}
	return object{
		"listen": object{"outbound": "127.0.0.1:0", "admin": "127.0.0.1:0"},
		"agents": agents, "store": w.store.url, "onStoreDown": set.onStoreDown,
		"limits": object{"maxChildren": maxChildren, "maxVisits": deepest + 1, "queueTimeout": set.queue.String(), "grace": grace.String()},
	}
}

func (w *world) close() error {
	var errs []error
	w.gate.open()
	for _, s := range slices.Backward(w.sidecars) {
		errs = append(errs, s.stop())
	}
	for _, a := range w.agents {
		errs = append(errs, a.close())
	}
	if w.store != nil {
		w.store.close()
	}
	return errors.Join(errs...)
}

// inWorld runs one world from its start to its balance, which it prints.
func (l *lab) inWorld(ctx context.Context, name string, r *rand.Rand, stdout io.Writer) (balanced bool, err error) {
	l.say.say("%s: starting", name)
	w, err := l.newWorld(ctx, name, name, chaosSettings, r)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return false, err
	}
	began := time.Now()
	if err := w.disturb(ctx, l.load, r); err != nil {
		return false, err
	}
	l.say.say("%s: the load has stopped; waiting until leases, grace and deadlines have passed", name)
	waited := time.Now()
	findings, err := w.dues(ctx)
	if err != nil {
		return false, err
	}
	still, err := w.quiesce(ctx)
	if err != nil {
		return false, err
	}
	took := time.Since(waited)
	findings = append(findings, still...)
	findings = append(findings, w.burst(ctx)...)
	again, err := w.quiesce(ctx)
	if err != nil {
		return false, err
	}
	l.say.say("%s: balancing the books", name)
	b, err := w.balance(ctx)
	if err != nil {
		return false, err
	}
	b.findings = slices.Concat(findings, again, b.findings)
	b.loaded, b.quieted, b.seed = waited.Sub(began), took, l.seed
	return len(b.findings) == 0, b.write(stdout)
}

// disturb lets calls run for a time, and breaks things meanwhile.
func (w *world) disturb(ctx context.Context, length time.Duration, r *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var busy sync.WaitGroup
	calls := rand.New(rand.NewPCG(r.Uint64(), 3))
	busy.Go(func() { w.load(ctx, calls) })
	busy.Go(func() { w.report(ctx) })
	err := w.strike(ctx, r)
	if err != nil {
		cancel()
	}
	busy.Wait()
	if err == nil {
		err = w.sound()
	}
	return err
}

// report says every now and then how it goes.
func (w *world) report(ctx context.Context) {
	for pause(ctx, 5*time.Second) {
		made, good := w.tally.counts()
		w.say.say("%s: %d calls made, %d answered; %d at work at the agents", w.name, made, good, w.ledger.at(""))
	}
}

// strike breaks one thing after the other until ctx ends, and leaves everything
// at work. Each kind of fault comes before any comes again.
func (w *world) strike(ctx context.Context, r *rand.Rand) error {
	faults := slices.Concat(w.store.outages, []fault{w.killing(ctx, r)})
	var turn []fault
	for pause(ctx, 2*time.Second+time.Duration(r.Int64N(int64(4*time.Second)))) {
		if len(turn) == 0 {
			turn = slices.Clone(faults)
			r.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		}
		f := turn[0]
		turn = turn[1:]
		down := time.Duration(r.Int64N(int64(3 * time.Second))) // leases outlive that, so that the caps hold
		if f.name == killSidecar && w.struck[killSidecar]%every == every-1 {
			down = lease + 5*time.Second // others must settle what it leaves behind
		}
		w.say.say("%s: %s, for %.1f s", w.name, f.name, down.Seconds())
		if err := f.breaks(); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		pause(ctx, down)
		if err := f.mend(); err != nil {
			return fmt.Errorf("mending after %s: %w", f.name, err)
		}
		w.struck[f.name]++
		if err := w.sound(); err != nil {
			return err
		}
	}
	return nil
}

const (
	killSidecar = "kill -9 of a sidecar"
	every       = 6 // of these a sidecar stays away for longer than its leases last
)

// killing kills any sidecar and starts it again.
func (w *world) killing(ctx context.Context, r *rand.Rand) fault {
	var s *sidecar
	ctx = context.WithoutCancel(ctx)
	return fault{
		name: killSidecar,
		breaks: func() error {
			s = w.sidecars[r.IntN(len(w.sidecars))]
			return s.kill()
		},
		mend: func() error { return s.start(ctx) },
	}
}

func (w *world) sound() error {
	for _, s := range w.sidecars {
		if err := s.sound(); err != nil {
			return err
		}
	}
	return nil
}

// dues sees to it that the store has a list of what is due, in which it will
// look for what is overdue: right after the load there is something in it.
func (w *world) dues(ctx context.Context) (findings []string, err error) {
	if w.store.overdue == nil {
		return nil, nil
	}
	n, err := w.store.overdue(ctx, time.Now().Add(24*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("asking the store for what is due: %w", err)
	}
	if n == 0 {
		findings = append(findings, "nothing is due in any tree right after the load: the list is not where chaos looks ("+dueKey+")")
	}
	return findings, nil
}

// quiesce waits until nothing is live in any tree. What is live for longer than
// everything that keeps it so is a finding.
func (w *world) quiesce(ctx context.Context) (findings []string, err error) {
	longest := lease + 2*chaosSettings.ttl + grace + 15*time.Second
	patience, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for n := 0; ; n++ {
		live, err := w.live(ctx)
		switch {
		case err == nil && len(live) == 0:
			return nil, nil
		case patience.Err() != nil && err == nil:
			return []string{fmt.Sprintf("after %s, trees are live in which nothing runs: %s", longest, strings.Join(live, ", "))}, nil
		case patience.Err() != nil:
			return nil, err
		case n%20 == 19:
			w.say.say("%s: %d trees are live", w.name, len(live))
		}
		pause(patience, 500*time.Millisecond)
	}
}

// live returns the trees in which something is live.
func (w *world) live(ctx context.Context) ([]string, error) {
	trees, err := w.trees(ctx)
	if err != nil {
		return nil, err
	}
	var live []string
	for _, t := range trees {
		if t.Live > 0 {
			live = append(live, fmt.Sprintf("%s (%d)", t.Root, t.Live))
		}
	}
	return live, nil
}
