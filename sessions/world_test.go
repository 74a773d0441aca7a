package sessions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// shaky is the model store, which can be made to fail.
type shaky struct {
	*storetest.Model

	mu       sync.Mutex
	down     bool               // nothing is answered
	deaf     bool               // notices are lost
	notices  []func()           // tell them again
	after    func(*sessions.Op) // called with each op that was carried out, before its outcome is known
	faulty   error              // of every progress
	damaged  error              // of every Settle
	hung     chan struct{}
	unclaims int
	finds    int
}

var errFaulty = errors.New("the store is broken, not down")

var errDown = fmt.Errorf("shaky: %w", sessions.ErrUnavailable)

func (s *shaky) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

func (s *shaky) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// loseNotices has notices lost from here on, or no longer.
func (s *shaky) loseNotices(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
}

func (s *shaky) Apply(ctx context.Context, ops []*sessions.Op) {
	s.mu.Lock()
	hung := s.hung
	s.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
	err := s.fault()
	if ctx.Err() != nil {
		err = errDown
	}
	if err != nil {
		for _, op := range ops {
			op.Err = err
		}
		return
	}
	s.mu.Lock()
	faulty := s.faulty
	s.mu.Unlock()
	if faulty != nil && ops[0].Progress != nil {
		ops[0].Err = faulty
		return
	}
	s.Model.Apply(ctx, ops)
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	if after != nil {
		for _, op := range ops {
			after(op)
		}
	}
}

func (s *shaky) Find(ctx context.Context, key sessions.BindingKey) (sessions.Binding, error) {
	s.mu.Lock()
	s.finds++
	s.mu.Unlock()
	if err := s.fault(); err != nil {
		return sessions.Binding{}, err
	}
	s.mu.Lock()
	hung := s.hung
	s.mu.Unlock()
	if hung != nil {
		<-ctx.Done()
		return sessions.Binding{}, ctx.Err()
	}
	return s.Model.Find(ctx, key)
}

func (s *shaky) Claim(ctx context.Context, key sessions.BindingKey, b sessions.Binding) (sessions.Binding, error) {
	if err := s.fault(); err != nil {
		return sessions.Binding{}, err
	}
	return s.Model.Claim(ctx, key, b)
}

func (s *shaky) Unclaim(ctx context.Context, key sessions.BindingKey, b sessions.Binding) error {
	s.mu.Lock()
	s.unclaims++
	s.mu.Unlock()
	if err := s.fault(); err != nil {
		return err
	}
	return s.Model.Unclaim(ctx, key, b)
}

func (s *shaky) Renew(ctx context.Context, runs []sessions.RunRef, lease time.Duration) error {
	if err := s.fault(); err != nil {
		return err
	}
	return s.Model.Renew(ctx, runs, lease)
}

func (s *shaky) Settle(ctx context.Context) (bool, error) {
	if err := s.fault(); err != nil {
		return false, err
	}
	s.mu.Lock()
	damaged := s.damaged
	s.mu.Unlock()
	if damaged != nil {
		return false, damaged
	}
	return s.Model.Settle(ctx)
}

func (s *shaky) Watch(ctx context.Context, fn func(sessions.Notice)) error {
	return s.Model.Watch(ctx, func(n sessions.Notice) {
		s.mu.Lock()
		deaf := s.deaf
		s.notices = append(s.notices, func() { fn(n) })
		s.mu.Unlock()
		if !deaf {
			fn(n)
		}
	})
}

func (s *shaky) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.hung != nil {
		return errDown
	}
	return nil
}

// world is a record over a store of its own, in a bubble of time.
type world struct {
	*testing.T
	store  *shaky
	record *sessions.Record
	agent  *sessions.Agent // that calls go to unless they say otherwise
	logs   *bytes.Buffer
	hooks  hooked
	calls  int // made so far
}

// hooked is what the hooks were told.
type hooked struct {
	mu         sync.Mutex
	queued     []time.Duration
	unrecorded int
	dropped    int
	ended      []string // agent, reason
}

const (
	self   = "coordinator"
	caught = "6ba7b810-9dad-11d1-80b4-00c04fd430c8" // what the catch-all's roots are derived from
)

// inWorld runs check in a bubble, with a record under the options that change makes.
func inWorld(t *testing.T, change func(*sessions.Options), check func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &shaky{Model: storetest.NewModel(time.Now)}, change)
		check(t, w)
		w.settle()
		if err := storetest.Consistent(t.Context(), w.store.Model); err != nil {
			t.Error(err)
		}
	})
}

func newWorld(t *testing.T, store *shaky, change func(*sessions.Options)) *world {
	t.Helper()
	w := &world{T: t, store: store, logs: &bytes.Buffer{}, agent: &sessions.Agent{
		Name: "worker", Kind: lineage.Branch, ContextIDs: contextid.Sidecar, Inherit: lineage.InheritFull,
		Limits: lineage.Limits{QueueTimeout: time.Minute},
	}}
	opts := sessions.Options{
		Store: store, Local: self, Owner: "sidecar-1", CatchAll: caught,
		Content:     sessions.Content{Keep: sessions.KeepText, MaxBytes: 16 << 10},
		OnStoreDown: sessions.StoreDownLocal,
		Logger:      slog.New(slog.NewTextHandler(w.logs, nil)),
		Hooks: sessions.Hooks{
			Queued: func(_ string, waited time.Duration) {
				w.hooks.mu.Lock()
				defer w.hooks.mu.Unlock()
				w.hooks.queued = append(w.hooks.queued, waited)
			},
			Unrecorded: func(string) {
				w.hooks.mu.Lock()
				defer w.hooks.mu.Unlock()
				w.hooks.unrecorded++
			},
			Ended: func(agent, reason string) {
				w.hooks.mu.Lock()
				defer w.hooks.mu.Unlock()
				w.hooks.ended = append(w.hooks.ended, agent+" "+reason)
			},
			Dropped: func(n int) {
				w.hooks.mu.Lock()
				defer w.hooks.mu.Unlock()
				w.hooks.dropped += n
			},
		},
	}
	if change != nil {
		change(&opts)
	}
	record, err := sessions.New(t.Context(), opts)
	if err != nil {
		t.Fatalf("New() = %v, want nil", err)
	}
	w.record = record
	t.Cleanup(func() {
		if err := record.Close(context.Background()); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		for line := range strings.SplitSeq(w.logs.String(), "\n") {
			if strings.Contains(line, "level=ERROR") && !strings.Contains(line, "record incomplete") && !strings.Contains(line, errFaulty.Error()) {
				t.Errorf("logged: %s", line)
			}
		}
	})
	return w
}

// message is a call to be made. What is empty is left out.
type message struct {
	agent             *sessions.Agent
	principal         string
	root, parent      string // lineage headers
	depth             int
	turn              string
	id, context, task string
	sender            string // adk_session_id
	parts             string // raw JSON
	method            string // empty: SendMessage
}

// call turns m into a Call. A message without an id gets one of its own.
func (w *world) call(m message) sessions.Call {
	w.Helper()
	w.calls++
	if m.id == "" {
		m.id = fmt.Sprintf("m%d", w.calls)
	}
	if m.agent == nil {
		m.agent = w.agent
	}
	msg := map[string]any{"messageId": m.id, "role": "ROLE_USER", "parts": json.RawMessage(`[{"text":"do it"}]`)}
	if m.parts != "" {
		msg["parts"] = json.RawMessage(m.parts)
	}
	if m.context != "" {
		msg["contextId"] = m.context
	}
	if m.task != "" {
		msg["taskId"] = m.task
	}
	if m.sender != "" {
		msg["metadata"] = map[string]string{"adk_session_id": m.sender}
	}
	method := m.method
	if method == "" {
		method = "SendMessage"
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": method, "params": map[string]any{"message": msg},
	})
	if err != nil {
		w.Fatalf("encoding a message: %v", err)
	}
	req, err := wire.Read(body)
	if err != nil {
		w.Fatalf("wire.Read(%s) = %v", body, err)
	}
	return sessions.Call{
		Agent: m.agent, Principal: m.principal, Root: m.root, Parent: m.parent, Depth: m.depth, Turn: m.turn, Request: req,
	}
}

// begin makes a call that must be admitted.
func (w *world) begin(m message) *sessions.Run {
	w.Helper()
	run, err := w.record.Begin(w.Context(), w.call(m))
	if err != nil {
		w.Fatalf("Begin(%+v) = %v, want a run", m, err)
	}
	return run
}

// refused makes a call that must be refused for a reason.
func (w *world) refused(m message, want lineage.Reason) {
	w.Helper()
	run, err := w.record.Begin(w.Context(), w.call(m))
	var r *lineage.Refusal
	if !errors.As(err, &r) || r.Reason != want {
		w.Errorf("Begin(%+v) = %v, %v, want refusal %s", m, run, err, want)
	}
}

// complete lets the agent answer run with a message, and ends it.
func (w *world) complete(run *sessions.Run) {
	w.Helper()
	w.say(run, `{"message":{"messageId":"r-`+run.Lineage().Session+fmt.Sprint(w.calls)+`","role":"ROLE_AGENT","parts":[{"text":"done"}]}}`)
	w.end(run, sessions.Answered)
}

// say lets the agent answer with a JSON-RPC result.
func (w *world) say(run *sessions.Run, results ...string) {
	w.Helper()
	for _, result := range results {
		w.saw(run, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`)
	}
}

func (w *world) saw(run *sessions.Run, response string) {
	w.Helper()
	u, err := wire.ReadResponse([]byte(response))
	if err != nil {
		w.Fatalf("wire.ReadResponse(%s) = %v", response, err)
	}
	run.Saw(u)
}

// settle waits until the store has heard of all that happened.
func (w *world) settle() {
	w.Helper()
	if _, err := w.record.Reader().Trees(w.Context(), sessions.TreeQuery{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// end ends run and waits until the store has heard of it.
func (w *world) end(run *sessions.Run, o sessions.Outcome) {
	w.Helper()
	run.End(o)
	w.settle()
}

// sent checks which context a run's message goes out with.
func (w *world) sent(what string, run *sessions.Run, wantID string, wantEdit bool) {
	w.Helper()
	if id, edit := run.ContextID(); id != wantID || edit != wantEdit {
		w.Errorf("%s: ContextID() = %q, %v, want %q, %v", what, id, edit, wantID, wantEdit)
	}
}

func contextOf(run *sessions.Run) string {
	id, _ := run.ContextID()
	return id
}

// session returns the session of run as the store has it now.
func (w *world) session(run *sessions.Run) lineage.Session {
	w.Helper()
	s, err := w.record.Reader().Session(w.Context(), run.Lineage().Session)
	if err != nil {
		w.Fatalf("Session() = %v", err)
	}
	return s
}

// stands checks how a session stands, and its last run.
func (w *world) stands(run *sessions.Run, session, last lineage.State, reason string) {
	w.Helper()
	synctest.Wait()
	s := w.session(run)
	r := s.Runs[len(s.Runs)-1]
	if s.State != session || r.State != last || r.Reason != reason {
		w.Errorf("session is %s %q, its last run %s %q, want %s, %s %q", s.State, s.Reason, r.State, r.Reason, session, last, reason)
	}
}

// tree returns the sessions of a tree.
func (w *world) tree(root string) []lineage.Session {
	w.Helper()
	all, err := sessions.AllSessions(w.Context(), w.record.Reader(), root)
	if err != nil {
		w.Fatalf("AllSessions(%s) = %v", root, err)
	}
	return all
}

// events returns a tree's log, of some types if any are named.
func (w *world) events(root string, types ...string) []lineage.Event {
	w.Helper()
	synctest.Wait()
	page, err := w.record.Reader().Events(w.Context(), root, sessions.EventQuery{All: true, Types: types, Limit: sessions.MaxPage})
	if err != nil {
		w.Fatalf("Events(%s) = %v", root, err)
	}
	return page.Events
}

// types returns the types of events, in order.
func types(events []lineage.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

// payload decodes the payload of an event.
func payload(t *testing.T, e lineage.Event) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		t.Fatalf("payload %s of %s: %v", e.Payload, e.ID, err)
	}
	return m
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// transcript returns the JSON-RPC responses in a recorded answer: one, or the
// events of a stream.
func transcript(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		if strings.HasPrefix(line, `{"jsonrpc"`) {
			all = append(all, line)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no response in %s", name)
	}
	return all
}
