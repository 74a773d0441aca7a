package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// capped is a call that a cap refuses, and the caps that do.
type capped struct {
	reason  string
	limits  lineage.Limits
	kind    lineage.Kind
	headers []string // beside the root
	held    bool     // while another call is under way
	before  string   // a call that is made first
	want10  string   // the rest of the ErrorInfo of 1.0, and its RetryInfo
	quota   string   // subject of the QuotaFailure; empty: none
	code    string
	message string
}

// refusals are all that an admission may answer, as callers see them.
var refusals = []capped{
	{
		reason: "CHILDREN_LIMIT", limits: lineage.Limits{MaxChildren: 1}, held: true, code: "-32050",
		message: "fan-out limit reached: session coordinator has 1 of 1 children running (maxChildren); retry when one ends",
		want10:  `"metadata":{"agent":"worker","count":"1","limit":"maxChildren","parent":"coordinator","value":"1"},"reason":"CHILDREN_LIMIT"},` + retryInfo,
		quota:   "session:coordinator",
	},
	{
		reason: "FANOUT_LIMIT", limits: lineage.Limits{MaxFanOut: 1}, held: true, code: "-32050",
		message: "fan-out limit reached: session coordinator has 1 of 1 calls running (maxFanOut); retry when one ends",
		want10:  `"metadata":{"agent":"worker","count":"1","limit":"maxFanOut","parent":"coordinator","value":"1"},"reason":"FANOUT_LIMIT"},` + retryInfo,
		quota:   "session:coordinator",
	},
	{
		reason: "CONCURRENCY_LIMIT", limits: lineage.Limits{MaxConcurrent: 1}, held: true, code: "-32050",
		message: "concurrency limit reached: agent worker has 1 of 1 calls running (maxConcurrent); retry when one ends",
		want10:  `"metadata":{"agent":"worker","count":"1","limit":"maxConcurrent","parent":"coordinator","value":"1"},"reason":"CONCURRENCY_LIMIT"},` + retryInfo,
		quota:   "agent:worker",
	},
	{
		reason: "DEPTH_LIMIT", limits: lineage.Limits{MaxDepth: 1}, headers: []string{"x-kagent-parent-context-id", "mid"}, code: "-32051",
		message: "depth limit reached: a call from session root.coordinator@1 to worker would stand at depth 2 of at most 1 (maxDepth); retrying does not help",
		want10:  `"metadata":{"agent":"worker","count":"2","limit":"maxDepth","parent":"root.coordinator@1","value":"1"},"reason":"DEPTH_LIMIT"}`,
	},
	{
		reason: "SESSIONS_LIMIT", limits: lineage.Limits{MaxSessions: 1}, before: send10("m0", ""), code: "-32051",
		message: "session limit reached: the tree of session coordinator has made 1 of 1 sessions (maxSessions); retrying does not help in this turn",
		want10:  `"metadata":{"agent":"worker","count":"1","limit":"maxSessions","parent":"coordinator","value":"1"},"reason":"SESSIONS_LIMIT"}`,
	},
	{
		reason: "LOOP_LIMIT", limits: lineage.Limits{MaxVisits: 1}, held: true, headers: []string{"x-kagent-parent-context-id", childContext}, code: "-32051",
		message: "loop limit reached: agent worker would stand 2 times on the path below session coordinator.worker@1, at most 1 are allowed (maxVisits); retrying does not help",
		want10:  `"metadata":{"agent":"worker","count":"2","limit":"maxVisits","parent":"coordinator.worker@1","value":"1"},"reason":"LOOP_LIMIT"}`,
	},
	{
		reason: "LEAF_SESSION", kind: lineage.Worker, before: send10("m0", ""), headers: []string{"x-kagent-parent-context-id", childContext}, code: "-32051",
		message: "session coordinator.worker@1 is a worker and cannot call agents; retrying does not help",
		want10:  `"metadata":{"agent":"worker","parent":"coordinator.worker@1"},"reason":"LEAF_SESSION"}`,
	},
	{
		reason: "PARENT_ENDED", before: send10("m0", ""), headers: []string{"x-kagent-parent-context-id", childContext}, code: "-32051",
		message: "session coordinator.worker@1 has ended or is being ended, and cannot call agents; retrying does not help",
		want10:  `"metadata":{"agent":"worker","parent":"coordinator.worker@1"},"reason":"PARENT_ENDED"}`,
	},
	{
		reason: "CONTEXT_FORBIDDEN", before: send10("m0", ""), headers: []string{"x-user-id", "bob"}, code: "-32051",
		message: "the task or context belongs to another user's conversation; retrying does not help",
		want10:  `"metadata":{"agent":"worker"},"reason":"CONTEXT_FORBIDDEN"}`,
	},
}

const (
	retryInfo = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}`
	// childContext stands for the context of the session that the first call made.
	childContext = "<child>"
)

// details are the google.rpc details of a refusal, as ProtoJSON.
func (c capped) details() string {
	d := `[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"a2a-sidecar",` + c.want10
	if c.quota != "" {
		d += `,{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"description":"` + c.message + `","subject":"` + c.quota + `"}]}`
	}
	return d + "]"
}

// refused makes a world in which the next call of c is refused. The calls that
// hold its places end with the test.
func refused(t *testing.T, c capped, change func(*proxy.Agent)) (*world, []string) {
	t.Helper()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if c.held {
			arrived <- struct{}{}
			<-release
		}
		says(message10)(w, r)
	})
	a := isolated("worker", agent.URL)
	a.Session.Limits, a.Session.Kind = c.limits, lineage.Branch
	if c.kind != "" {
		a.Session.Kind = c.kind
	}
	change(&a)
	w := newWorld(t, a)
	headers := []string{"x-kagent-root-context-id", "top"}
	if c.before != "" {
		w.post(t, c.before, headers...)
	}
	if c.held {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = w.try(t, http.MethodPost, "/agents/worker", send10("m0", ""), headers...)
		}()
		<-arrived
		t.Cleanup(func() { close(release); <-done })
	}
	for _, h := range c.headers {
		if h == childContext {
			h = w.session(t, "top").ContextID
		}
		headers = append(headers, h)
	}
	return w, headers
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			w, headers := refused(t, c, func(*proxy.Agent) {})
			want03 := `{"jsonrpc":"2.0","id":1,"error":{"code":` + c.code + `,"message":"` + c.message + `"}}`
			want10 := `{"jsonrpc":"2.0","id":1,"error":{"code":` + c.code + `,"message":"` + c.message + `","data":` + c.details() + `}}`
			for _, tt := range []struct{ body, contentType, want string }{
				{send10("m1", ""), "application/json", want10},
				{stream10("m2", ""), "text/event-stream", "data: " + want10 + "\n\n"},
				{call03("message/send", "m3", ""), "application/json", want03},
				{call03("message/stream", "m4", ""), "text/event-stream", "data: " + want03 + "\n\n"},
			} {
				got := w.post(t, tt.body, headers...)
				if got.status != http.StatusOK || got.header.Get("Content-Type") != tt.contentType {
					t.Errorf("answer = %d %s, want 200 %s", got.status, got.header.Get("Content-Type"), tt.contentType)
				}
				if diff := cmp.Diff(tt.want, got.body); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(map[string][]string{}, values(got.header, "x-sidecar-")); diff != "" {
					t.Errorf("a call that ran nowhere (-want +got):\n%s", diff)
				}
			}
			if all, err := sessions.AllSessions(t.Context(), w.store, "top"); err != nil && c.held || len(all) > 2 {
				t.Errorf("the tree has %d sessions (%v): a refused call left one", len(all), err)
			}
		})
	}
}

// While the store does not answer, calls go on in the contexts that they would
// have had, and nothing is said of sessions that nobody has recorded.
func TestCallsGoOnWithoutAStore(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(completed10))
	w := newWorldWith(t, func(o *sessions.Options, _ *proxy.Options) {
		o.Store, o.OnStoreDown = brokenStore{o.Store}, sessions.StoreDownLocal
	}, isolated("worker", agent.URL))
	for i, body := range []string{send10("m1", `,"contextId":"x"`), stream10("m2", ""), `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`} {
		got := w.post(t, body, "x-kagent-root-context-id", "top")
		if got.body != completed10 {
			t.Errorf("answer = %s, want the agent's", got.body)
		}
		if i == 2 {
			break
		}
		id := got.header.Get("x-sidecar-context-id")
		want := map[string][]string{"x-sidecar-root-context-id": {"top"}, "x-sidecar-context-id": {id}}
		if diff := cmp.Diff(want, values(got.header, "x-sidecar-")); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		sent := agent.received()[i]
		if id == "" || !strings.Contains(sent.body, `"contextId":"`+id+`"`) || sent.header.Get("X-Kagent-Root-Context-Id") != "top" {
			t.Errorf("agent got %s, root %q; want context %q, root top", sent.body, sent.header.Get("X-Kagent-Root-Context-Id"), id)
		}
	}
}

// A store that does not answer refuses, if it is told to.
func TestRefusalWithoutAStore(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorldWith(t, func(o *sessions.Options, _ *proxy.Options) {
		o.Store, o.OnStoreDown = brokenStore{o.Store}, sessions.StoreDownRefuse
	}, agentAt("worker", agent.URL))
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32052,"message":"the record of sessions cannot be reached; retry later","data":[` +
		`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"a2a-sidecar","metadata":{"agent":"worker"},"reason":"STORE_UNAVAILABLE"},` + retryInfo + `]}}`
	if got := w.post(t, send10("m1", "")); got.body != want {
		t.Errorf("answer = %s, want %s", got.body, want)
	}
}

// damagedStore is a store that answers, and cannot do what it is asked.
type damagedStore struct{ sessions.Store }

func (damagedStore) Apply(_ context.Context, ops []*sessions.Op) {
	for _, op := range ops {
		op.Err = errors.New("the script broke")
	}
}

// What goes wrong in an admission is told to whoever runs the sidecar, and not
// to the caller.
func TestFailedAdmissionIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	agent := newFake(t, says(message10))
	w := newWorldWith(t, func(o *sessions.Options, p *proxy.Options) {
		o.Store = damagedStore{o.Store}
		p.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}, agentAt("worker", agent.URL))
	got := w.post(t, send10("m1", ""))
	if e := readError(t, got, false); e.Error.Code != -32052 || strings.Contains(got.body, "script") {
		t.Errorf("answer = %s, want -32052 and nothing of the cause", got.body)
	}
	w.close()
	if !strings.Contains(log.String(), "admission failed") || !strings.Contains(log.String(), "the script broke") {
		t.Errorf("log = %s, want the cause", &log)
	}
}
