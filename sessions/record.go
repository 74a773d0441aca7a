package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Defaults of [Options].
const (
	DefaultLease   = 30 * time.Second
	DefaultTimeout = 2 * time.Second
	DefaultSettle  = time.Second
	bindingCache   = 16384
)

// OnStoreDown says what becomes of calls while the store does not answer.
type OnStoreDown string

// The policies. With StoreDownLocal a call goes on, in the context it would
// have had, and is not recorded; the caps hold by this sidecar's own counts.
const (
	StoreDownLocal  OnStoreDown = "local"
	StoreDownRefuse OnStoreDown = "refuse"
)

// Options configures a [Record].
type Options struct {
	Store       Store         // must be set; the Record does not close it
	Local       string        // name of the agent beside the sidecar
	Agents      []Agent       // that sessions may be spawned for ahead of a call; see Record.Spawn
	Owner       string        // names this sidecar in leases; must be unique
	Alone       bool          // no other sidecar uses the store
	CatchAll    string        // UUID from which the roots of trees for calls that name no conversation are derived
	Secret      []byte        // key of derived context ids; nil: the store's
	Lease       time.Duration // of a run's place; renewed at a third of it. 0: DefaultLease
	Grace       time.Duration // the store's. 0: lineage.DefaultGrace
	Timeout     time.Duration // of one batch at the store. 0: DefaultTimeout
	Settle      time.Duration // between looks for what is overdue in the store. 0: DefaultSettle
	Content     Content
	OnStoreDown OnStoreDown
	Logger      *slog.Logger // must be set
	Hooks       Hooks
}

// Hooks are told what happens, for metrics. Each may be nil; they are called
// concurrently and must not block.
type Hooks struct {
	Queued     func(agent string, waited time.Duration) // a call left the queue
	Unrecorded func(agent string)                       // a call went on without the store
	Dropped    func(n int)                              // progress that was given up
	Canceled   func(agent string, err error)            // an agent was asked to stop, of the sidecar's own accord
	Asked      func(agent string, err error)            // an agent was asked how a task stands, likewise
	Ended      func(agent, reason string)               // a call was cut off; reason is lineage.Session.Ending
}

// Agent is what the record needs to know of a called agent.
type Agent struct {
	Name       string
	Isolate    bool
	ContextIDs contextid.Mode
	Kind       lineage.Kind
	Inherit    lineage.Inherit
	TTL        time.Duration
	Limits     lineage.Limits
	Abandon    bool          // its sessions go on when their parent ends
	Reconcile  time.Duration // between questions for a task that no call holds; 0: it is not asked for
}

// Call is one message on its way to an agent.
type Call struct {
	Agent     *Agent
	Principal string
	Root      string // lineage header, empty if none
	Parent    string // lineage header, empty if none
	Depth     int    // depth that the caller's headers claim for it; 0: none
	Turn      string
	TraceID   string
	Request   *wire.Request

	As    any               // for Outreach: how to call the agent as this call does
	Abort func(cause error) // ends the call from outside, with an [Ended]; nil: it cannot be
}

// Record admits calls and records what becomes of them. It is safe for
// concurrent use. Make one with [New], and end it with Close.
type Record struct {
	opts    Options
	secret  []byte
	writer  *writer
	lines   *lines
	cache   *lru.Cache[BindingKey, Binding]
	known   *lru.Cache[BindingKey, lineage.Session] // sessions of tasks that this sidecar has seen
	fresh   *lru.Cache[BindingKey, Binding]         // ids that agents named, until the store is asked whose they are
	unheard *lru.Cache[BindingKey, *unheard]        // by task
	stops   *lru.Cache[string, earlyStop]           // by run: asked to stop before a call of this sidecar held it
	agents  map[string]*Agent
	books   *books

	cancel context.CancelFunc
	beat   sync.WaitGroup // what goes on in the background
	jobs   jobs
	outage atomic.Bool   // the store has not answered since it was last settled
	asks   chan struct{} // capacity 1: a task is to be asked for at once
	beats  chan struct{} // capacity 1: leases are to be renewed at once
	slots  chan struct{} // of questions under way

	mu       sync.Mutex       // guards the fields below, and what they hold
	open     map[string]*hold // by run id
	outreach Outreach
}

// New returns a Record over a store that must answer now. What it does in the
// background, until Close, it does under ctx.
func New(ctx context.Context, opts Options) (*Record, error) {
	if opts.Lease <= 0 {
		opts.Lease = DefaultLease
	}
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Grace <= 0 {
		opts.Grace = lineage.DefaultGrace
	}
	if opts.Settle <= 0 {
		opts.Settle = DefaultSettle
	}
	secret := opts.Secret
	if secret == nil {
		var err error
		if secret, err = opts.Store.Secret(ctx); err != nil {
			return nil, fmt.Errorf("reading the key of context ids: %w", err)
		}
	}
	cache, err := lru.New[BindingKey, Binding](bindingCache)
	if err != nil {
		return nil, err
	}
	known, err := lru.New[BindingKey, lineage.Session](bindingCache / 4)
	if err != nil {
		return nil, err
	}
	fresh, err := lru.New[BindingKey, Binding](bindingCache)
	if err != nil {
		return nil, err
	}
	tasks, err := lru.NewWithEvict(maxUnheard, func(_ BindingKey, u *unheard) { u.place.leave() })
	if err != nil {
		return nil, err
	}
	stops, err := lru.New[string, earlyStop](maxUnheard)
	if err != nil {
		return nil, err
	}
	r := &Record{
		opts: opts, secret: secret, lines: newLines(), cache: cache, known: known, fresh: fresh, unheard: tasks, stops: stops,
		agents: map[string]*Agent{}, books: newBooks(),
		jobs: jobs{ready: make(chan struct{}, 1)}, asks: make(chan struct{}, 1), beats: make(chan struct{}, 1), slots: make(chan struct{}, maxAsking), open: map[string]*hold{},
	}
	for _, a := range opts.Agents {
		r.agents[a.Name] = &a
	}
	// Before the first admission: what died with a sidecar holds no place then.
	switch err := r.settleAll(ctx); {
	case errors.Is(err, ErrUnavailable):
		return nil, err
	case err != nil: // something in the store is damaged; the rest is not
		opts.Logger.ErrorContext(ctx, "settling what is overdue failed", "error", err)
	}
	r.writer = newWriter(opts.Store, opts.Timeout, func() bool { return r.lines.waiting() == 0 }, r.applied, r.dropped)
	ctx, r.cancel = context.WithCancel(ctx)
	go r.writer.run(context.WithoutCancel(ctx))
	if err := r.beginUpkeep(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("watching the store: %w", err), r.Close(ctx))
	}
	return r, nil
}

// Close writes what is pending and ends the background work. Runs that are
// still open keep their leases until these lapse.
func (r *Record) Close(ctx context.Context) error {
	r.cancel()
	r.beat.Wait()
	return r.writer.close(ctx)
}

// Unavailable returns what is wrong with the store, or nil.
func (r *Record) Unavailable() error { return r.writer.unavailable() }

// Waiting returns how many calls wait for a place.
func (r *Record) Waiting() int { return r.lines.waiting() }

// Open returns how many runs are held open by calls of this sidecar.
func (r *Record) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

func (r *Record) applied(ops []*Op) {
	for _, op := range ops {
		switch {
		case op.Err == nil && op.Progress != nil && op.Progress.State != "":
			r.lines.freed(op.Progress.Root, op.Progress.Agent)
		case op.Err == nil && op.Change != nil:
			r.lines.freedAny() // an end goes down the tree, and so to any agent
		case op.Err != nil && op.Progress != nil && !errors.Is(op.Err, ErrUnavailable) && !errors.Is(op.Err, ErrNotFound):
			r.opts.Logger.Error("recording failed", "session_id", op.Progress.Session, "error", op.Err)
		}
	}
}

func (r *Record) dropped(n int, err error) {
	r.opts.Logger.Error("record incomplete: store did not answer in time", "dropped", n, "error", err)
	if r.opts.Hooks.Dropped != nil {
		r.opts.Hooks.Dropped(n)
	}
}

// Begin admits a send, waiting for a place if it must. The error is a
// *lineage.Refusal, or ctx's. The returned run must be ended with End.
func (r *Record) Begin(ctx context.Context, c Call) (*Run, error) {
	p, err := r.place(ctx, c)
	var g Grant
	if err == nil {
		g, err = r.admit(ctx, p)
		if p.guessed && forbidden(err) {
			// The context that the caller named is the root of another user's
			// tree. It gets a context of its own, and does not learn of the other.
			other := r.catchAll(c)
			other.crosses = true
			if p, err = r.placeAt(ctx, c, other); err == nil {
				g, err = r.admit(ctx, p)
			}
		}
	}
	if err == nil {
		return r.started(c, p, g), nil
	}
	if errors.Is(err, ErrUnavailable) {
		return r.withoutStore(ctx, c, p, err)
	}
	var refusal *lineage.Refusal
	if errors.As(err, &refusal) && p.a != nil {
		r.note(p.a, refusal, lineage.EventRefused, "refused/")
	}
	return nil, err
}

func forbidden(err error) bool {
	var refusal *lineage.Refusal
	return errors.As(err, &refusal) && refusal.Reason == lineage.ContextForbidden
}

// admit asks for a place and waits in line if the caps say so.
func (r *Record) admit(ctx context.Context, p placed) (Grant, error) {
	a := p.a
	var queuedAt time.Time
	g, err := r.lines.admit(ctx, a,
		func() (Grant, error) {
			return r.writer.do(ctx, Op{Admit: a}, func(late Grant) *Progress { return r.giveBack(a, late) })
		},
		func(refusal *lineage.Refusal) {
			queuedAt = time.Now()
			r.note(a, refusal, lineage.EventQueued, "queued/")
		})
	if !queuedAt.IsZero() && r.opts.Hooks.Queued != nil {
		r.opts.Hooks.Queued(a.Agent, time.Since(queuedAt))
	}
	if err != nil && p.claimed {
		r.unclaim(ctx, BindingKey{BindContext, a.Agent, a.ContextID}, Binding{a.Root, a.Principal})
	}
	return g, err
}

// giveBack ends a run whose caller left before the grant came. Nothing was
// sent: a task that waited waits as before, and a run that another call holds
// is none of this one's. Nil: there is nothing to tell.
func (r *Record) giveBack(a *Admission, g Grant) *Progress {
	if g.Resumed && !g.Waited {
		r.mu.Lock()
		defer r.mu.Unlock()
		if h := r.open[g.RunID]; h != nil {
			h.ref.Gen = max(h.ref.Gen, g.Gen)
		}
		return nil
	}
	p := &Progress{
		Root: a.Root, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: a.Agent, TraceID: a.TraceID,
		State: lineage.Failed, Reason: lineage.ReasonLost,
	}
	if g.Resumed && a.TaskID != "" {
		p.State = lineage.Suspended
	}
	return p
}

// note logs an event about a call that has no session yet, with its parent.
func (r *Record) note(a *Admission, refusal *lineage.Refusal, event, id string) {
	if refusal.ParentID == "" {
		return
	}
	payload, err := json.Marshal(map[string]any{
		"agent": a.Agent, "messageId": a.MessageID, "reason": refusal.Reason,
		"limit": refusal.Limit, "value": refusal.Value, "count": refusal.Count,
	})
	if err != nil {
		r.opts.Logger.Error("encoding an event failed", "type", event, "error", err)
		return
	}
	r.writer.post(&Progress{
		Root: a.Root, Session: refusal.ParentID, Agent: a.Agent, TraceID: a.TraceID,
		Events: []Draft{{ID: id + a.RunID, Type: event, Payload: payload}},
	})
}

// withoutStore is the one place that decides what a call may do while the
// store does not answer.
func (r *Record) withoutStore(ctx context.Context, c Call, p placed, err error) (*Run, error) {
	if r.opts.OnStoreDown == StoreDownRefuse {
		return nil, &lineage.Refusal{Reason: lineage.StoreUnavailable, Agent: c.Agent.Name}
	}
	if p.a == nil {
		p = r.guess(c)
	}
	place := r.books.place(p.a, p.a.ContextID)
	label := r.opts.Local
	if !fromRoot(p.a) {
		label = p.a.Caller.ContextID
	}
	if refusal := place.admit(c.Agent.Limits, label); refusal != nil {
		return nil, refusal
	}
	r.opts.Logger.WarnContext(ctx, "call goes on unrecorded", "agent", c.Agent.Name, "error", err)
	if r.opts.Hooks.Unrecorded != nil {
		r.opts.Hooks.Unrecorded(c.Agent.Name)
	}
	return unrecorded(c, p, place), nil
}
