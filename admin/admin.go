// Package admin is the admin port: the HTTP API over the record, health,
// readiness and metrics.
//
//	request ─▶ guard ─▶ route ─▶ endpoint ─▶ View ─▶ sessions.Reader
//	           Host, Origin,     parameters  who may
//	           token             in          see what
//	                             and body ─────────▶ Keeper
//	        ◀───────────────── JSON, or a problem (RFC 9457)
//
// It knows what package adminapi promises and how to ask a record for it. It
// opens no listener and no store, and decides nothing about sessions itself.
package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Options configure the handler. Reader must be set.
type Options struct {
	// Reader is the record.
	Reader sessions.Reader
	// Keeper changes the record. Nil: what asks for a change is refused.
	Keeper Keeper
	// Limits are the caps that hold now, shown with every tree. Nil: none are.
	Limits func() adminapi.Limits
	// Ready returns why the sidecar cannot do its work, nothing if it can.
	// Nil: it always can.
	Ready func(context.Context) []string
	// Degraded returns what a sidecar that works does without. Nil: nothing.
	Degraded func(context.Context) []string
	// Metrics serves /metrics. Nil: there is no such page.
	Metrics http.Handler
	// Token must come with every request but those for health, as
	// "Authorization: Bearer TOKEN". Empty: none is needed.
	Token string
	// Addr is the address that is bound. One on loopback, or none, answers to
	// loopback names and to Hosts only.
	Addr net.Addr
	// Hosts are further names, without a port, by which this address may be
	// called. Beyond loopback any name will do if Hosts is empty, since there
	// the token stands guard, and any IP address in every case.
	Hosts []string
	// Logger gets what went wrong and the peer is not told. Nil: nobody does.
	Logger *slog.Logger
}

// New returns the handler of the admin port.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	none := func(context.Context) []string { return nil }
	if o.Ready == nil {
		o.Ready = none
	}
	if o.Degraded == nil {
		o.Degraded = none
	}
	s := &server{opts: o, view: NewView(o.Reader, o.Limits)}

	mux := http.NewServeMux()
	mux.Handle("GET /api/v1/trees", s.json(s.trees))
	mux.Handle("GET /api/v1/trees/{root}", s.json(s.tree))
	mux.Handle("GET /api/v1/trees/{root}/events", s.json(s.events))
	mux.Handle("GET /api/v1/sessions/{id}", s.json(s.session))
	mux.Handle("POST /api/v1/sessions", s.json(s.spawn))
	for _, verb := range verbs {
		mux.Handle("POST /api/v1/sessions/{id}/"+string(verb), s.json(s.step(verb)))
	}
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /{$}", s.index)
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	return s.guard(s.route(mux))
}

type server struct {
	opts Options
	view *View
}

func (s *server) trees(ctx context.Context, r *request) (any, error) {
	q := adminapi.TreesQuery{
		State: r.text("state"), Agent: r.text("agent"), Text: r.text("q"),
		Limit: r.count("limit"), Cursor: r.text("cursor"),
	}
	if err := r.fault(); err != nil {
		return nil, err
	}
	return s.view.Trees(ctx, q)
}

func (s *server) tree(ctx context.Context, r *request) (any, error) {
	root, nested := r.segment("root"), r.flag("nested")
	q := adminapi.SessionsQuery{After: r.offset("after"), Limit: r.count("limit")}
	if nested {
		r.apart("nested", "after", "limit")
	}
	if err := r.fault(); err != nil {
		return nil, err
	}
	tree, err := s.view.TreePart(ctx, root, q)
	switch {
	case err != nil || !nested:
		return tree, err
	case tree.Next != 0:
		return nil, adminapi.NewProblem(http.StatusBadRequest,
			"tree %q has %d sessions, too many to nest: leave nested out, and page with after and limit", root, tree.Counts.Sessions)
	}
	return nest(tree), nil
}

func (s *server) events(ctx context.Context, r *request) (any, error) {
	root, q := r.segment("root"), adminapi.EventsQuery{
		As: r.text("as"), After: r.number("after"), Limit: r.count("limit"), LastN: r.count("lastN"),
		Types: r.list("type"), Session: r.text("session"), AcrossTurns: r.text("acrossTurns"),
	}
	r.apart("lastN", "after", "limit")
	if err := r.fault(); err != nil {
		return nil, err
	}
	return s.view.Events(ctx, root, q)
}

func (s *server) session(ctx context.Context, r *request) (any, error) {
	id := r.segment("id")
	if err := r.fault(); err != nil {
		return nil, err
	}
	return s.view.Session(ctx, id)
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	s.text(w, "ok\n")
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	unready := s.opts.Ready(r.Context())
	status := http.StatusOK
	if len(unready) > 0 {
		status = http.StatusServiceUnavailable
	}
	s.write(w, r, status, "application/json", adminapi.Readiness{
		Ready:   len(unready) == 0,
		Reasons: orEmpty(slices.Concat(unready, s.opts.Degraded(r.Context()))),
	})
}

const index = `a2a-sidecar, admin port

GET /api/v1/trees                  trees of sessions, newest first
GET /api/v1/trees/{root}           one tree, with its sessions
GET /api/v1/trees/{root}/events    its log; ?as= says who looks: a session, a branch, or all
GET /api/v1/sessions/{id}          one session
POST /api/v1/sessions              a session ahead of the first call to it
POST /api/v1/sessions/{id}/{verb}  a step in its life: complete, fail, suspend, resume, cancel
GET /healthz                       the process is up
GET /readyz                        it does its work, or why not
GET /metrics                       for Prometheus

The same on a terminal: sidecar trees, sidecar tree latest, sidecar events latest, sidecar spawn, …
`

func (s *server) index(w http.ResponseWriter, _ *http.Request) {
	s.text(w, index)
}
