package proxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// short is a grace that a test can wait for.
const short = 50 * time.Millisecond

// stuck is an agent that says something, or nothing, and then hangs until its
// connection is closed. It does not stop when it is asked to.
type stuck struct {
	*fake
	thinks, gone chan struct{}
}

func newStuck(t *testing.T, contentType, says string) stuck {
	t.Helper()
	s := stuck{thinks: make(chan struct{}), gone: make(chan struct{})}
	s.fake = newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "CancelTask" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32002,"message":"no"}}`)
			return
		}
		if says != "" {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, says)
			_ = http.NewResponseController(w).Flush()
		}
		close(s.thinks)
		<-r.Context().Done()
		close(s.gone)
	})
	return s
}

// A call whose session was ended is cut off when the grace is over. If nothing
// of the answer has gone to the caller yet, it is told why, in its own binding.
func TestEndedCallIsRefused(t *testing.T) {
	t.Parallel()
	const rpc, rest = "/agents/worker", "/agents/worker/message:"
	params := func(call string) string {
		return strings.TrimSuffix(call[strings.Index(call, `"params":`)+len(`"params":`):], "}")
	}
	details := `[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"a2a-sidecar",` +
		`"metadata":{"agent":"worker","session":"<session>"},"reason":"SESSION_ENDED"}]`
	message := "session <session> was ended: it was canceled; retrying does not help"
	error10 := `{"jsonrpc":"2.0","id":1,"error":{"code":-32051,"message":"` + message + `","data":` + details + `}}`
	error03 := `{"jsonrpc":"2.0","id":1,"error":{"code":-32051,"message":"` + message + `"}}`
	errorREST := `{"error":{"code":400,"details":` + details + `,"message":"` + message + `","status":"FAILED_PRECONDITION"}}`
	for _, tt := range []struct {
		name, path, body, version string
		status                    int
		want                      string
	}{
		{"JSON-RPC 1.0", rpc, send10("m1", ""), "1.0", 200, error10},
		{"JSON-RPC 1.0 streaming", rpc, stream10("m1", ""), "1.0", 200, "data: " + error10 + "\n\n"},
		{"JSON-RPC 0.3", rpc, call03("message/send", "m1", ""), "", 200, error03},
		{"JSON-RPC 0.3 streaming", rpc, call03("message/stream", "m1", ""), "", 200, "data: " + error03 + "\n\n"},
		{"HTTP+JSON", rest + "send", params(send10("m1", "")), "1.0", 400, errorREST},
		{"HTTP+JSON streaming", rest + "stream", params(stream10("m1", "")), "1.0", 400, errorREST},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newStuck(t, "", "")
			w := newEndingWorld(t, short, isolated("worker", agent.URL))
			answered := make(chan answer, 1)
			go func() {
				a, err := w.try(t, http.MethodPost, tt.path, tt.body, "Content-Type", "application/json", "A2A-Version", tt.version, "x-kagent-root-context-id", "top")
				if err != nil {
					t.Error(err)
				}
				answered <- a
			}()
			<-agent.thinks
			id := w.session(t, "top").ID
			w.step(t, id, lineage.VerbCancel)
			got := <-answered
			<-agent.gone
			if want := strings.ReplaceAll(tt.want, "<session>", id); got.status != tt.status || got.body != want {
				t.Errorf("answer = %d %s, want %d:\n%s", got.status, got.body, tt.status, cmp.Diff(want, got.body))
			}
			if got.header.Get("x-sidecar-session-id") != id {
				t.Errorf("the answer names session %q, want %q", got.header.Get("x-sidecar-session-id"), id)
			}
			w.state(t, "top", lineage.Failed, lineage.ReasonCanceled)
		})
	}
}

// Of an answer that has begun, the caller sees that it is not all.
func TestEndedAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, contentType, said string }{
		{"stream", stream10("m1", ""), "text/event-stream", "data: " + working10 + "\n\n"},
		{"body", send10("m1", ""), "application/json", `{"jsonrpc":"2.0",`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newStuck(t, tt.contentType, tt.said)
			w := newEndingWorld(t, short, isolated("worker", agent.URL))
			resp := w.open(t, tt.body, "x-kagent-root-context-id", "top")
			defer func() { _ = resp.Body.Close() }()
			<-agent.thinks
			w.step(t, w.session(t, "top").ID, lineage.VerbCancel)
			if got, err := io.ReadAll(resp.Body); string(got) != tt.said || err == nil {
				t.Errorf("answer = %q, %v; want %q and that it broke off", got, err, tt.said)
			}
			<-agent.gone
			w.state(t, "top", lineage.Failed, lineage.ReasonCanceled)
		})
	}
}

// The same in gRPC, where the agent's stream is reset.
func TestEndedGRPC(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		unary bool
		begun bool
		want  codes.Code
	}{
		{"unary", true, false, codes.FailedPrecondition},
		{"stream that has not begun", false, false, codes.FailedPrecondition},
		{"stream", false, true, codes.Internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			thinks, gone := make(chan struct{}), make(chan struct{})
			hang := func(ctx context.Context) {
				close(thinks)
				<-ctx.Done()
				close(gone)
			}
			at := (&grpcAgent{
				send: func(ctx context.Context, _ *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
					hang(ctx)
					return nil, ctx.Err()
				},
				stream: func(_ *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
					if tt.begun {
						working := task10("t1", "c1", a2apb.TaskState_TASK_STATE_WORKING)
						if err := s.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: working}}); err != nil {
							return err
						}
					}
					hang(s.Context())
					return s.Context().Err()
				},
			}).start(t)
			a := isolated("worker", at.String())
			a.GRPCURL = at
			w := newEndingWorld(t, short, a)
			client := w.dialGRPC(t)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", "top")
			ended := make(chan error, 1)
			go func() {
				if tt.unary {
					_, err := client.SendMessage(ctx, proto10("m1"))
					ended <- err
					return
				}
				stream, err := client.SendStreamingMessage(ctx, proto10("m1"))
				for err == nil {
					_, err = stream.Recv()
				}
				ended <- err
			}()
			<-thinks
			id := w.session(t, "top").ID
			w.step(t, id, lineage.VerbCancel)
			err := <-ended
			<-gone
			if status.Code(err) != tt.want {
				t.Errorf("the call ended with %v, want %s", err, tt.want)
			}
			if want := "session " + id + " was ended: it was canceled; retrying does not help"; !tt.begun && status.Convert(err).Message() != want {
				t.Errorf("message = %q, want %q", status.Convert(err).Message(), want)
			}
			w.state(t, "top", lineage.Failed, lineage.ReasonCanceled)
		})
	}
}

// The SDK's clients and agents: an agent that does not stop when asked to is cut
// off, and its caller reads why.
func TestSDKEnded(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			opts, thinks, hold := v.options(), make(chan struct{}, 2), make(chan struct{})
			opts.Stubborn = true
			opts.Work = func(context.Context) error {
				thinks <- struct{}{}
				<-hold
				return nil
			}
			agent := startAgent(t, opts)
			defer close(hold)
			w := newEndingWorld(t, short, isolated("worker", agent.URL()))
			c := w.dial(t, v)
			ended := make(chan error, 1)
			go func() {
				_, err := c.SendMessage(t.Context(), userMessage("tides"))
				ended <- err
			}()
			<-thinks
			first := w.session(t, "chat").ID
			w.step(t, first, lineage.VerbCancel)
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "session "+first+" was ended: it was canceled") {
				t.Errorf("SendMessage = %v, want why its session was ended", err)
			}

			s := begin(t, c, nil)
			<-thinks
			all, err := sessions.AllSessions(t.Context(), w.record.Reader(), "chat")
			if err != nil || len(all) != 3 {
				t.Fatalf("the tree has %d sessions, %v; want 3", len(all), err)
			}
			w.step(t, all[2].ID, lineage.VerbCancel)
			if err := <-s.rest; err == nil {
				t.Error("the stream ended as if all were well")
			}
			asked := agent.Asked()
			if len(asked) != 1 || asked[0].TaskID != string(s.task) { // of the unary call's task nobody has told
				t.Errorf("the agent was asked %+v, want CancelTask of %s", asked, s.task)
			}
			w.close()
			for _, session := range all[1:] {
				s, err := w.store.Session(t.Context(), session.ID)
				if err != nil || s.State != lineage.Failed || s.Reason != lineage.ReasonCanceled {
					t.Errorf("session = %s %s, %v; want failed canceled", s.State, s.Reason, err)
				}
			}
		})
	}
}

// An agent whose callers get refusals as tasks gives them this one so, too.
func TestEndedAsATask(t *testing.T) {
	t.Parallel()
	agent := newStuck(t, "", "")
	a := isolated("worker", agent.URL)
	a.RefuseTask = true
	w := newEndingWorld(t, short, a)
	answered := make(chan answer, 1)
	go func() {
		got, err := w.try(t, http.MethodPost, "/agents/worker", send10("m1", ""), "Content-Type", "application/json", "x-kagent-root-context-id", "top")
		if err != nil {
			t.Error(err)
		}
		answered <- got
	}()
	<-agent.thinks
	w.step(t, w.session(t, "top").ID, lineage.VerbCancel)
	if got := <-answered; !strings.Contains(got.body, `"state":"TASK_STATE_FAILED"`) || !strings.Contains(got.body, "was ended: it was canceled") {
		t.Errorf("answer = %s, want a failed task that says why", got.body)
	}
}

// Calls that were cut off count as ended, and those of the sidecar's own as
// nobody else's.
func TestEndedIsCounted(t *testing.T) {
	t.Parallel()
	opts := agents.Options{Stubborn: true}
	untilReleased(t, &opts)
	agent := startAgent(t, opts)
	reader := sdkmetric.NewManualReader()
	store := newStore(t, short)
	a := isolated("worker", agent.URL())
	w := newWorldWith(t, func(r *sessions.Options, o *proxy.Options) {
		r.Store, r.Settle = store, 10*time.Millisecond
		o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	}, a)
	s := begin(t, w.dial(t, wires[0]), nil)
	w.step(t, w.session(t, "chat").ID, lineage.VerbCancel)
	if err := <-s.rest; err == nil {
		t.Error("the stream ended as if all were well")
	}
	want := map[string]int64{"a2a_sidecar_calls stream ended": 1, "a2a_sidecar_own_calls cancel answered": 1}
	within(t, "both calls are counted", func() bool { return len(counters(t, reader)) >= len(want) })
	w.close()
	if diff := cmp.Diff(want, counters(t, reader)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

// counters reads all counters, by operation and outcome.
func counters(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	counted := map[string]int64{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				op, _ := p.Attributes.Value("op")
				outcome, _ := p.Attributes.Value("outcome")
				counted[m.Name+" "+op.AsString()+" "+outcome.AsString()] += p.Value
			}
		}
	}
	return counted
}
