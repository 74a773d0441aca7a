package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// This file maps the configuration, field by field, to what each package
// takes, so that none of them sees another's keys.

type storeOptions struct {
	retain   time.Duration
	grace    time.Duration // 0: none
	log      *slog.Logger
	readOnly bool // for looking only
}

// openStore opens the store that a URL names.
func openStore(ctx context.Context, u config.StoreURL, o storeOptions) (sessions.Store, error) {
	grace := max(o.grace, time.Nanosecond) // to a store 0 means its default
	if u.Scheme() == "sqlite" {
		return sqlite.Open(ctx, sqlite.Options{
			Path: strings.TrimPrefix(u.Reveal(), "sqlite:"), Retain: o.retain, Grace: grace, Logger: o.log, ReadOnly: o.readOnly,
		})
	}
	return redis.Open(ctx, redis.Options{URL: u.Reveal(), Retain: o.retain, Grace: grace, Logger: o.log})
}

func proxyAgents(cfg *config.Config) ([]proxy.Agent, error) {
	agents := make([]proxy.Agent, 0, len(cfg.Agents))
	for _, a := range cfg.Agents {
		u, err := url.Parse(a.URL)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.Name, err)
		}
		var grpc *url.URL // nil: where the card says
		if a.GRPC.URL != "" {
			if grpc, err = url.Parse(a.GRPC.URL); err != nil {
				return nil, fmt.Errorf("gRPC interface of agent %s: %w", a.Name, err)
			}
		}
		tls, err := clientTLS(a.TLS)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.Name, err)
		}
		keys, err := cardKeys(a.Cards.Verify)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.Name, err)
		}
		limits := lineageLimits(cfg.LimitsFor(a))
		limits.MaxConcurrent = a.Limits.MaxConcurrent
		agents = append(agents, proxy.Agent{
			Session: sessions.Agent{
				Name: a.Name, Isolate: a.IsolateSessions, ContextIDs: contextid.Mode(a.ContextIDs),
				Kind: lineage.Kind(a.Kind), Inherit: lineage.Inherit(a.Inherits()), TTL: a.SessionTTL(), Limits: limits,
				Abandon: a.OnParentEnd == config.OnParentEndAbandon, Reconcile: a.Reconcile,
			},
			URL: u, GRPCURL: grpc, TLS: tls, CardsAsSent: !a.Cards.Rewrite, CardKeys: keys,
			Told: lineage.Told(a.Lineage), RefuseTask: a.Refuse == config.RefuseTask,
			RelayPush: a.Push == config.PushRelay,
		})
	}
	return agents, nil
}

// sessionAgents is what the record knows of the agents.
func sessionAgents(agents []proxy.Agent) []sessions.Agent {
	of := make([]sessions.Agent, len(agents))
	for i := range agents {
		of[i] = agents[i].Session
	}
	return of
}

func lineageLimits(l config.Limits) lineage.Limits {
	return lineage.Limits{
		MaxDepth: l.MaxDepth, MaxChildren: l.MaxChildren, MaxFanOut: l.MaxFanOut,
		MaxSessions: l.MaxSessions, MaxVisits: l.MaxVisits, QueueTimeout: l.QueueTimeout,
	}
}

// apiLimits is the caps as the admin API shows them.
func apiLimits(cfg *config.Config) adminapi.Limits {
	l := adminapi.LimitsOf(lineageLimits(cfg.Limits))
	for _, a := range cfg.Agents {
		own := lineageLimits(cfg.LimitsFor(a))
		own.MaxConcurrent = a.Limits.MaxConcurrent
		if own != lineageLimits(cfg.Limits) {
			if l.Agents == nil {
				l.Agents = map[string]adminapi.Limits{}
			}
			l.Agents[a.Name] = adminapi.LimitsOf(own)
		}
	}
	return l
}

func contentPolicy(r config.Record) (sessions.Content, error) {
	c := sessions.Content{Keep: sessions.Keep(r.Content), MaxBytes: int(r.MaxBytes)}
	for _, pattern := range r.Redact {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return sessions.Content{}, fmt.Errorf("record.redact: %w", err)
		}
		c.Redact = append(c.Redact, re)
	}
	return c, nil
}

// newHooks counts what the record tells. The hooks run where no call's context
// is at hand: they get ctx.
func newHooks(ctx context.Context, provider metric.MeterProvider) (sessions.Hooks, error) {
	m := provider.Meter("github.com/a2a-sidecar/a2a-sidecar/sessions")
	queue, err := m.Float64Histogram("a2a_sidecar_queue_duration", metric.WithUnit("s"),
		metric.WithDescription("Time that calls waited for a place, by agent."),
		metric.WithExplicitBucketBoundaries(.005, .05, .25, 1, 5, 15, 60, 300))
	if err != nil {
		return sessions.Hooks{}, err
	}
	unrecorded, err := m.Int64Counter("a2a_sidecar_unrecorded",
		metric.WithDescription("Calls that went on unrecorded while the store did not answer, by agent."))
	if err != nil {
		return sessions.Hooks{}, err
	}
	dropped, err := m.Int64Counter("a2a_sidecar_record_dropped",
		metric.WithDescription("Pieces of the record that were given up since the store did not answer in time."))
	if err != nil {
		return sessions.Hooks{}, err
	}
	canceled, err := m.Int64Counter("a2a_sidecar_cancels",
		metric.WithDescription("Agents asked to stop a task of a session that is to end, by agent and outcome."))
	if err != nil {
		return sessions.Hooks{}, err
	}
	asked, err := m.Int64Counter("a2a_sidecar_reconciles",
		metric.WithDescription("Agents asked how a task stands that no call holds, by agent and outcome."))
	if err != nil {
		return sessions.Hooks{}, err
	}
	ended, err := m.Int64Counter("a2a_sidecar_calls_ended",
		metric.WithDescription("Calls cut off since the grace of their session was over, by agent and reason."))
	if err != nil {
		return sessions.Hooks{}, err
	}
	at := func(agent string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("agent", agent)))
	}
	return sessions.Hooks{
		Queued:     func(agent string, waited time.Duration) { queue.Record(ctx, waited.Seconds(), at(agent)) },
		Unrecorded: func(agent string) { unrecorded.Add(ctx, 1, at(agent)) },
		Dropped:    func(n int) { dropped.Add(ctx, int64(n)) },
		Canceled:   func(agent string, err error) { canceled.Add(ctx, 1, with(agent, "outcome", outcomeOf(err))) },
		Asked:      func(agent string, err error) { asked.Add(ctx, 1, with(agent, "outcome", outcomeOf(err))) },
		Ended:      func(agent, reason string) { ended.Add(ctx, 1, with(agent, "reason", reason)) },
	}, nil
}

// with labels a measurement with an agent and one thing more.
func with(agent, name, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("agent", agent), attribute.String(name, value)))
}

// outcomeOf names what became of a call of the sidecar's own accord.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, sessions.ErrTaskGone):
		return "gone"
	default:
		return "failed"
	}
}

func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading roots: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading roots: %s holds no certificate", file)
	}
	return pool, nil
}
