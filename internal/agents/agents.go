// Package agents runs real A2A agents on loopback: servers of the a2a-go SDK,
// with an agent card, for the demo, the tests and the benchmark.
//
//	caller ─HTTP─▶ a2asrv (the SDK's server) ─▶ behaviour ─▶ status, artifact, message
//	                                              │
//	                                              ▼
//	                                            memory: what the agent itself saw
//
// What an agent tells of itself by [Agent.Contexts], [Agent.Calls] and
// [Agent.MaxParallel] is the ground truth that a sidecar's claims are checked
// against. So this package knows the protocol and nothing of a sidecar: no
// sessions, no lineage, no caps.
package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
)

// Version says which versions of A2A an agent speaks.
type Version string

// The versions. An agent that speaks both has one interface for each.
const (
	V10  Version = "1.0"
	V03  Version = "0.3"
	Both Version = "both"
)

// Options says what an agent is like. Only Name must be set.
type Options struct {
	Name        string
	Description string
	Version     Version   // empty: V10
	Behaviour   Behaviour // empty: Researcher
	// Bindings are those that the agent speaks; nil: JSON-RPC alone. gRPC has a
	// port of its own.
	Bindings []a2a.TransportProtocol
	// Push says that the agent sends push notifications to whom asks for them.
	Push bool

	// Delay is how long the agent works on a message. A researcher says what it
	// is doing while it works.
	Delay time.Duration
	// Work, if set, is done in place of waiting for Delay: it holds every
	// message for as long as it does not return. When it fails, so does the
	// task. Its context ends when the task is cancelled or the agent is closed.
	Work func(ctx context.Context) error
	// Stubborn says that the agent does not stop when it is asked to: it answers
	// that its tasks cannot be cancelled.
	Stubborn bool

	Logger *slog.Logger // nil: what the SDK logs is dropped
}

// Call is one message as it came to the agent.
type Call struct {
	Header    http.Header // of the HTTP request
	Message   *a2a.Message
	ContextID string // context that it ran in; Message.ContextID is the one that was sent
}

// Agent is a running agent. Its methods may be called concurrently.
type Agent struct {
	opts   Options
	url    string
	server *http.Server
	alive  context.Context // ends when the agent is to stop working
	stop   context.CancelFunc
	drain  func() error // lets answers leave, and then closes the server
	served chan error   // what Serve ended with
	grpc   *grpcServer  // nil: none
	conns  connections

	working sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	closed bool
	calls  []Call
	asked  []Asked
	memory map[string][]*a2a.Message // by context, in order of arrival
	busy   int
	most   int
}

// The paths of the interfaces. An agent that speaks both versions has 0.3 on
// paths of its own.
const (
	pathRPC    = "/"
	pathRPC03  = "/v0.3"
	pathREST   = "/rest"
	pathREST03 = "/v0.3/rest"
)

const (
	headerTimeout = 10 * time.Second
	closeTimeout  = 5 * time.Second
)

// Start runs an agent on a free port of 127.0.0.1 until Close. It stops working
// when ctx ends.
func Start(ctx context.Context, opts Options) (*Agent, error) {
	if opts.Version == "" {
		opts.Version = V10
	}
	if opts.Behaviour == "" {
		opts.Behaviour = Researcher
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{opts: opts, memory: map[string][]*a2a.Message{}, served: make(chan error, 1)}
	executor, err := a.executor()
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting agent %s: %w", opts.Name, err)
	}
	a.url = "http://" + listener.Addr().String()
	handler, err := a.routes(ctx, executor)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	a.alive, a.stop = context.WithCancel(ctx)
	a.server = &http.Server{
		Handler:           withHeaders(handler),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	a.drain = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := a.server.Shutdown(ctx); err != nil {
			return errors.Join(err, a.server.Close())
		}
		return nil
	}
	go func() { a.served <- a.server.Serve(a.conns.listener(listener)) }()
	return a, nil
}

// routes lays out the interfaces that the agent's version asks for, and its card.
func (a *Agent) routes(ctx context.Context, executor a2asrv.AgentExecutor) (http.Handler, error) {
	options := []a2asrv.RequestHandlerOption{a2asrv.WithLogger(a.opts.Logger), a2asrv.WithCallInterceptors(interceptor{agent: a})}
	if a.opts.Push {
		options = append(options, a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)))
	}
	handler := a2asrv.NewHandler(executor, options...)
	card := &a2a.AgentCard{
		Name:               a.opts.Name,
		Description:        a.opts.Description,
		Version:            "1.0.0",
		Capabilities:       a2a.AgentCapabilities{Streaming: true, PushNotifications: a.opts.Push},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{
			ID: string(a.opts.Behaviour), Name: string(a.opts.Behaviour),
			Description: a.opts.Behaviour.skill(), Tags: []string{"example"},
		}},
	}
	mux := http.NewServeMux()
	if err := a.offer(ctx, mux, card, handler); err != nil {
		return nil, fmt.Errorf("starting agent %s: %w", a.opts.Name, err)
	}
	if a.opts.Version == V10 {
		mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	} else {
		mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card)))
	}
	return mux, nil
}

// URL is the agent's base URL, below which its card is.
func (a *Agent) URL() string { return a.url }

// Contexts returns how many messages the agent had in each context.
func (a *Agent) Contexts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := make(map[string]int, len(a.memory))
	for id, messages := range a.memory {
		n[id] = len(messages)
	}
	return n
}

// Calls returns the messages that came, in order.
func (a *Agent) Calls() []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// MaxParallel returns the highest number of messages that the agent worked on
// at once. One is worked on until just before its last word.
func (a *Agent) MaxParallel() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}

// Break cuts the connections that callers have to the agent. It goes on working,
// and takes new ones.
func (a *Agent) Break() error {
	if err := a.conns.cut(); err != nil {
		return fmt.Errorf("breaking the connections of agent %s: %w", a.opts.Name, err)
	}
	return nil
}

// Crash ends the agent as Close does, but that its callers get no answer: they
// are cut off first.
func (a *Agent) Crash() error {
	err := a.server.Close()
	if a.grpc != nil {
		a.grpc.Stop()
	}
	return errors.Join(err, a.Close())
}

// Close ends the agent: what it works on fails. It returns when nothing of the
// agent runs any more. Closing a closed agent does nothing.
func (a *Agent) Close() error {
	a.mu.Lock()
	closed := a.closed
	a.closed = true
	a.mu.Unlock()
	if closed {
		return nil
	}
	a.stop()
	err := a.drain()
	if a.grpc != nil {
		err = errors.Join(err, a.grpc.close())
	}
	a.working.Wait()
	if served := <-a.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("closing agent %s: %w", a.opts.Name, err)
	}
	return nil
}

// take notes a message that came. Once the agent is closed it takes none.
func (a *Agent) take(ctx context.Context, exec *a2asrv.ExecutorContext) (ok bool) {
	header, _ := ctx.Value(headerKey{}).(http.Header)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.working.Add(1)
	a.calls = append(a.calls, Call{Header: header, Message: exec.Message, ContextID: exec.ContextID})
	a.memory[exec.ContextID] = append(a.memory[exec.ContextID], exec.Message)
	a.busy++
	a.most = max(a.most, a.busy)
	return true
}

// rest notes that the work on a message is done but for the last word.
func (a *Agent) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy--
}

// others returns the messages of a context but for those of one task.
func (a *Agent) others(contextID string, own *a2a.Task, message *a2a.Message) []*a2a.Message {
	mine := map[string]bool{message.ID: true}
	if own != nil {
		for _, m := range own.History {
			mine[m.ID] = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var others []*a2a.Message
	for _, m := range a.memory[contextID] {
		if !mine[m.ID] {
			others = append(others, m)
		}
	}
	return others
}

// headerKey is the context key of the header of the request that a message
// came with: the SDK's own record of it folds case and leaves out repeats.
type headerKey struct{}

func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), headerKey{}, r.Header.Clone())
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
