package main

import (
	"context"
	"crypto/x509"
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
	log      *slog.Logger
	readOnly bool // for looking only
}

// openStore opens the store that a URL names.
func openStore(ctx context.Context, u config.StoreURL, o storeOptions) (sessions.Store, error) {
	if u.Scheme() == "sqlite" {
		return sqlite.Open(ctx, sqlite.Options{
			Path: strings.TrimPrefix(u.Reveal(), "sqlite:"), Retain: o.retain, Logger: o.log, ReadOnly: o.readOnly,
		})
	}
	return redis.Open(ctx, redis.Options{URL: u.Reveal(), Retain: o.retain, Logger: o.log})
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
			},
			URL: u, GRPCURL: grpc, TLS: tls, CardsAsSent: !a.Cards.Rewrite, CardKeys: keys,
			Told: lineage.Told(a.Lineage), RefuseTask: a.Refuse == config.RefuseTask,
			RelayPush: a.Push == config.PushRelay,
		})
	}
	return agents, nil
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
		metric.WithDescription("Calls that went on while the store did not answer, held to no cap, by agent."))
	if err != nil {
		return sessions.Hooks{}, err
	}
	dropped, err := m.Int64Counter("a2a_sidecar_record_dropped",
		metric.WithDescription("Pieces of the record that were given up since the store did not answer in time."))
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
	}, nil
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
