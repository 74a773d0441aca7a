package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/admin"
	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/internal/telemetry"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// flushTime is what each release gets at most: the record and the telemetry are
// written out then.
const flushTime = 5 * time.Second

// idleTime is how long a connection stays open that nobody uses.
const idleTime = 2 * time.Minute

// minKey is the length of a key of context ids in bytes, at least.
const minKey = 16

// appOptions is what an app is made of.
type appOptions struct {
	Config config.Config
	Log    *slog.Logger
	Getenv func(string) string
	Drain  time.Duration // that calls under way get once the sidecar is told to stop; 0: drainTime
}

// app is one running sidecar: a store, the record over it, and the listeners.
// It is assembled in one place, for serve and for the demo.
type app struct {
	log       *slog.Logger
	tel       *telemetry.Telemetry
	store     sessions.Store
	record    *sessions.Record
	proxy     *proxy.Proxy
	outbound  *endpoint
	callbacks *endpoint            // nil: off
	grpc      map[string]*endpoint // by agent
	admin     *endpoint
	calls     underWay      // what the ports that calls come by are working on
	drain     time.Duration // that calls under way get once the sidecar is told to stop
	stopping  atomic.Bool   // it has been told to stop
	refuses   bool          // onStoreDown: refuse
	releases  []release
}

// release undoes one acquisition. Releases run in reverse.
type release struct {
	what string
	do   func(context.Context) error
}

// newApp opens the store and binds the listeners. What it has acquired when it
// fails, it has released.
func newApp(ctx context.Context, o appOptions) (_ *app, err error) {
	a := &app{log: o.Log, drain: cmp.Or(o.Drain, drainTime)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.release(context.WithoutCancel(ctx)))
		}
	}()
	cfg := &o.Config
	a.refuses = cfg.OnStoreDown == config.OnStoreDownRefuse

	if a.tel, err = telemetry.Start(ctx, telemetry.Options{Service: "a2a-sidecar", Version: buildVersion().Version, Getenv: o.Getenv}); err != nil {
		return nil, err
	}
	a.onStop("flushing telemetry", a.tel.Shutdown)

	if a.store, err = openStore(ctx, cfg.Store, storeOptions{retain: cfg.Retain, grace: cfg.Limits.Grace, log: o.Log}); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", cfg.Store, err)
	}
	a.onStop("closing the store", func(context.Context) error { return a.store.Close() })

	secret, err := readKey(cfg.Lineage.Key)
	if err != nil {
		return nil, err
	}
	content, err := contentPolicy(cfg.Record)
	if err != nil {
		return nil, err
	}
	hooks, err := newHooks(context.WithoutCancel(ctx), a.tel.Meter)
	if err != nil {
		return nil, err
	}
	agents, err := proxyAgents(cfg)
	if err != nil {
		return nil, err
	}
	a.record, err = sessions.New(context.WithoutCancel(ctx), sessions.Options{
		Store: a.store, Local: cfg.Local.Name, Agents: sessionAgents(agents), Owner: owner(), Alone: cfg.Store.Scheme() == "sqlite",
		Grace: cfg.Limits.Grace, CatchAll: uuid.NewString(), Secret: secret,
		Content: content, OnStoreDown: sessions.OnStoreDown(cfg.OnStoreDown), Logger: o.Log, Hooks: hooks,
	})
	if err != nil {
		return nil, err
	}
	a.onStop("writing the record", a.record.Close)

	pushURL, err := a.bindCallbacks(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a.proxy, err = proxy.New(proxy.Options{
		Agents: agents, Record: a.record, HeaderPrefix: cfg.Lineage.HeaderPrefix, MaxBody: int64(cfg.LimitsHTTP.MaxBody),
		PushURL: pushURL, Logger: o.Log, Tracer: a.tel.Tracer, Meter: a.tel.Meter, Propagator: a.tel.Propagator,
	})
	if err != nil {
		return nil, err
	}
	a.onStop("closing connections", func(context.Context) error { a.proxy.Close(); return nil })

	token, err := readSecret(cfg.Admin.Token)
	if err != nil {
		return nil, err
	}
	if err = a.listen(ctx, cfg, a.proxy); err != nil {
		return nil, err
	}
	limits := apiLimits(cfg)
	if a.admin, err = a.bind(ctx, "admin", cfg.Listen.Admin, cfg.LimitsHTTP); err != nil {
		return nil, err
	}
	a.admin.server.Handler = admin.New(admin.Options{
		Reader: a.record.Reader(), Keeper: a.record, Limits: func() adminapi.Limits { return limits }, Ready: a.unready, Degraded: a.degraded, Metrics: a.tel.Metrics,
		Token: string(token), Logger: o.Log,
	})
	return a, nil
}

func (a *app) onStop(what string, do func(context.Context) error) {
	a.releases = append(a.releases, release{what, do})
}

// release undoes what was acquired, newest first.
func (a *app) release(ctx context.Context) error {
	var errs []error
	for _, r := range slices.Backward(a.releases) {
		ctx, cancel := context.WithTimeout(ctx, flushTime)
		if err := r.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.what, err))
		}
		cancel()
	}
	a.releases = nil
	return errors.Join(errs...)
}

// Outbound is the URL that the agent beside the sidecar calls.
func (a *app) Outbound() string { return a.outbound.url() }

// Admin is the URL of the admin API.
func (a *app) Admin() string { return a.admin.url() }

// unready says what keeps the sidecar from serving calls: that it has been told
// to stop, or a store that does not answer, if calls must not go on without it.
func (a *app) unready(ctx context.Context) []string {
	if a.stopping.Load() {
		return []string{"stopping"}
	}
	if !a.refuses {
		return nil
	}
	return a.storeFaults(ctx)
}

// degraded says what a sidecar that serves calls does without.
func (a *app) degraded(ctx context.Context) []string {
	if a.refuses {
		return nil
	}
	return a.storeFaults(ctx)
}

func (a *app) storeFaults(ctx context.Context) []string {
	err := a.record.Unavailable()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = a.store.Ping(ctx)
	}
	if err != nil {
		return []string{"store: " + err.Error()}
	}
	return nil
}

// owner names this sidecar in the leases of a shared store.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "sidecar"
	}
	return host + "/" + uuid.NewString()[:8]
}

// readSecret reads a secret file; nil if none is configured. White space around
// the secret is none of it: whether a file ends in a newline is up to the editor.
func readSecret(s config.Secret) ([]byte, error) {
	if s.File == "" {
		return nil, nil
	}
	b, err := os.ReadFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("reading a secret: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil, fmt.Errorf("reading a secret: %s is empty", s.File)
	}
	return b, nil
}

// readKey reads the key of context ids; nil if none is configured.
func readKey(s config.Secret) ([]byte, error) {
	key, err := readSecret(s)
	if err != nil {
		return nil, fmt.Errorf("lineage.key: %w", err)
	}
	if key != nil && len(key) < minKey {
		return nil, fmt.Errorf("lineage.key: %s holds %d bytes, fewer than the %d that a key needs", s.File, len(key), minKey)
	}
	return key, nil
}

// clientTLS makes the TLS of calls to an agent; nil for the defaults.
func clientTLS(c config.ClientTLS) (*tls.Config, error) {
	if c == (config.ClientTLS{}) {
		return nil, nil
	}
	t := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pool, err := readRoots(c.CA)
		if err != nil {
			return nil, err
		}
		t.RootCAs = pool
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("reading a client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
