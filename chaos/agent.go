package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// agent is a real A2A agent, a server of the a2a-go SDK. Those of internal/agents
// hold nothing of who calls them; this one does as the letter in a message says,
// enters its work into the ledger, and calls on as its caller.
type agent struct {
	name   string
	asks   bool // back, before it works
	ledger *ledger
	gate   *gate
	onward *caller // for its own calls
	url    string
	server *http.Server
	served chan error

	mu    sync.Mutex // guards what follows
	tasks map[a2a.TaskID]*stint
}

// stint is the work on a task, as its cancellation sees it.
type stint struct {
	canceled bool
	stop     chan struct{} // closed when it is canceled
	done     chan struct{} // closed when the ledger knows of its end; nil: nothing is under way
}

// gate holds what waits for it until it is opened. Make one with newGate.
type gate struct {
	mu     sync.Mutex // guards opened
	opened chan struct{}
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// open lets all go that wait now. Who comes after waits for the next time.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened = make(chan struct{})
}

func startAgent(ctx context.Context, name string, l *ledger, g *gate, onward *caller) (*agent, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting agent %s: %w", name, err)
	}
	a := &agent{
		name: name, asks: name == agentAsker, ledger: l, gate: g, onward: onward,
		url: "http://" + listener.Addr().String(), served: make(chan error, 1), tasks: map[a2a.TaskID]*stint{},
	}
	card := &a2a.AgentCard{
		Name: name, Version: "1.0.0", Capabilities: a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(a.url, a2a.TransportProtocolJSONRPC)},
	}
	mux := http.NewServeMux()
	mux.Handle("/", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(a, a2asrv.WithLogger(slog.New(slog.DiscardHandler)))))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { a.served <- a.server.Serve(listener) }()
	return a, nil
}

// close ends the server. What the agent works on has ended by then.
func (a *agent) close() error {
	err := a.server.Close()
	if served := <-a.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Execute implements [a2asrv.AgentExecutor].
func (a *agent) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		l, err := open(exec.Message)
		if err != nil {
			yield(nil, err)
			return
		}
		s, ok := a.take(exec.TaskID)
		if !ok {
			return
		}
		w := &work{agent: a.name, context: exec.ContextID, caller: l.Caller, message: l.Message, by: l.By}
		// Before anybody hears of the task, so that whoever cancels it finds it.
		a.ledger.begin(w)
		finish := sync.OnceFunc(func() { a.ledger.end(w); close(s.done) })
		defer finish()
		fresh := exec.StoredTask == nil
		if fresh && !yield(a2a.NewSubmittedTask(exec, exec.Message), nil) {
			return
		}
		if a.asks && fresh {
			finish()
			yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateInputRequired, nil), nil)
			return
		}
		if !yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateWorking, nil), nil) {
			return
		}
		if !a.do(ctx, exec.ContextID, l, s) {
			finish() // the one who cancels waits for it
			<-ctx.Done()
			return
		}
		// Before the last word is heard: the next call may come with it.
		finish()
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCompleted, nil), nil)
	}
}

// do does the work, and returns false when it is canceled. It does not hang up
// on those it has called itself, so that it is never adrift what they do.
func (a *agent) do(ctx context.Context, contextID string, l letter, s *stint) bool {
	var onward sync.WaitGroup
	for _, next := range l.Job.Next {
		onward.Go(func() { a.onward.call(context.WithoutCancel(ctx), l.Root, contextID, l.User, next) })
	}
	timer := time.NewTimer(l.Job.Work)
	defer timer.Stop()
	over := timer.C
	var opened <-chan struct{}
	if l.Job.Hold {
		over, opened = nil, a.gate.wait()
	}
	select {
	case <-over:
	case <-opened:
	case <-s.stop:
	case <-ctx.Done():
	}
	onward.Wait()
	select {
	case <-s.stop:
		return false
	default:
		return ctx.Err() == nil
	}
}

// take begins a stint on a task, unless the task is canceled.
func (a *agent) take(task a2a.TaskID) (*stint, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.tasks[task]; s != nil && s.canceled {
		return nil, false
	}
	s := &stint{stop: make(chan struct{}), done: make(chan struct{})}
	a.tasks[task] = s
	return s, true
}

// Cancel implements [a2asrv.AgentExecutor]. It answers when the work has ended:
// with the answer the record takes the task's place for free.
func (a *agent) Cancel(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		a.mu.Lock()
		s := a.tasks[exec.TaskID]
		if s == nil {
			s = &stint{stop: make(chan struct{})}
			a.tasks[exec.TaskID] = s
		}
		if !s.canceled {
			s.canceled = true
			close(s.stop)
		}
		a.mu.Unlock()
		if s.done != nil {
			select {
			case <-s.done:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCanceled, nil), nil)
	}
}
