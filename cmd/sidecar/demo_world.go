package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// demoStore is a store of which nothing stays.
const demoStore = "sqlite::memory:"

// The sub-agents of the demo: the same agent three times, each under another
// policy.
const (
	demoShared   = "shared"   // the default: its session is the conversation's
	demoIsolated = "isolated" // isolateSessions: true
	demoHasty    = "no-queue" // the same, and queueTimeout: 0
)

// demoWorld is everything that the demo runs.
//
//	coordinator ─▶ sidecar (app) ─▶ shared, isolated, no-queue
type demoWorld struct {
	cfg    config.Config
	agents map[string]*agents.Agent
	app    *app

	end    context.CancelFunc // tells the sidecar to stop
	served chan error         // what its Run returned
}

// startDemoWorld starts the sub-agents and the sidecar. What it has started
// when it fails, it has stopped.
func startDemoWorld(ctx context.Context, o demoOptions, log *slog.Logger, getenv func(string) string) (*demoWorld, error) {
	cfg := config.Default()
	cfg.Listen.Outbound, cfg.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Store = config.NewStoreURL(o.Store)
	w := &demoWorld{agents: map[string]*agents.Agent{}, served: make(chan error, 1)}
	for _, name := range []string{demoShared, demoIsolated, demoHasty} {
		agent, err := agents.Start(ctx, agents.Options{
			Name: name, Description: "Researches a topic.", Delay: o.Delay, Logger: log,
		})
		if err != nil {
			return nil, errors.Join(err, w.closeAgents())
		}
		w.agents[name] = agent
		policy := config.NewAgent(name, agent.URL())
		policy.IsolateSessions = name != demoShared
		if name == demoHasty {
			policy.Limits.QueueTimeout = new(time.Duration)
		}
		cfg.Agents = append(cfg.Agents, policy)
	}
	if err := cfg.Validate(); err != nil {
		return nil, errors.Join(err, w.closeAgents())
	}
	w.cfg = cfg
	var err error
	if w.app, err = newApp(ctx, appOptions{Config: cfg, Log: log, Getenv: getenv}); err != nil {
		return nil, errors.Join(err, w.closeAgents())
	}
	// The sidecar outlives an interrupted ctx, until stop: the agents go last.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	w.end = end
	go func() { w.served <- w.app.Run(running) }()
	return w, nil
}

// wait returns when ctx ends, or with what ended the sidecar.
func (w *demoWorld) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.served:
		w.served <- err // stop reads it, too
		return err
	}
}

// stop ends everything and waits for it.
func (w *demoWorld) stop() error {
	w.end()
	return errors.Join(<-w.served, w.closeAgents())
}

func (w *demoWorld) closeAgents() error {
	var errs []error
	for _, a := range w.agents {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// play lets the coordinator make its calls and gathers what became of them.
func (w *demoWorld) play(ctx context.Context, calls int) (*demoOutcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTimeout, errors.New("the calls took too long"))
	defer cancel()
	c := newDemoCoordinator(w.app.Outbound(), w.cfg.Lineage.HeaderPrefix)
	defer c.close()
	o := &demoOutcome{
		Calls: calls, Conversation: a2a.NewContextID(), Burst: a2a.NewContextID(),
		MaxChildren: w.cfg.Limits.MaxChildren,
	}
	record := w.app.record.Reader() // whoever has an answer finds in it what became of the call
	for _, s := range []struct {
		into         *demoScene
		agent        string
		conversation string
		calls        int
		lineage      bool // the coordinator says where its calls come from
	}{
		{&o.Shared, demoShared, o.Conversation, calls, false},
		{&o.Isolated, demoIsolated, o.Conversation, calls, true},
		// What the caps refuse stands in a conversation of its own, so that the
		// tree of the first is that of the two scenes.
		{&o.Hasty, demoHasty, o.Burst, w.cfg.Limits.MaxChildren + demoTooMany, true},
	} {
		answers, err := c.fanOut(ctx, s.agent, s.conversation, s.lineage, demoTopics(s.calls))
		if err != nil {
			return nil, err
		}
		policy := w.cfg.Agents[slices.IndexFunc(w.cfg.Agents, func(a config.Agent) bool { return a.Name == s.agent })]
		*s.into = gatherScene(policy, w.cfg.LimitsFor(policy).QueueTimeout, answers, w.agents[s.agent])
		if err := s.into.countEvents(ctx, record, s.conversation); err != nil {
			return nil, fmt.Errorf("reading the record: %w", err)
		}
	}
	var err error
	o.Sessions, err = sessions.AllSessions(ctx, record, o.Conversation)
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	return o, nil
}

// demoTooMany is by how many calls the last scene exceeds the cap.
const demoTooMany = 3
