package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
)

// Every error of a gRPC agent arrives as it was sent, on one connection and on
// fresh ones. (With FlushInterval -1, one in ten did not.)
func TestGRPCErrorsArrive(t *testing.T) {
	t.Parallel()
	const calls, fresh = 300, 30
	agent := startAgent(t, agents.Options{Bindings: []a2a.TransportProtocol{a2a.TransportProtocolGRPC}})
	w := newWorld(t, agentAt("worker", agent.URL()))
	addr := w.listenGRPC(t)
	check := func(c a2apb.A2AServiceClient, n int) {
		for range n {
			_, err := c.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "nope"})
			if s := status.Convert(err); s.Code() != codes.NotFound || len(s.Details()) == 0 {
				t.Fatalf("GetTask = %v with %v, want NotFound with details", err, s.Details())
			}
		}
	}
	dial := func() (a2apb.A2AServiceClient, io.Closer) {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		return a2apb.NewA2AServiceClient(conn), conn
	}
	one, conn := dial()
	check(one, calls)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	for range fresh {
		c, conn := dial()
		check(c, 1)
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// grpcAgent is a gRPC server that does as it is told.
type grpcAgent struct {
	a2apb.UnimplementedA2AServiceServer
	send   func(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error)
	stream func(*a2apb.SendMessageRequest, grpc.ServerStreamingServer[a2apb.StreamResponse]) error
	get    func(context.Context, *a2apb.GetTaskRequest) (*a2apb.Task, error)
}

func (a *grpcAgent) GetTask(ctx context.Context, r *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	if a.get == nil {
		return a.UnimplementedA2AServiceServer.GetTask(ctx, r)
	}
	return a.get(ctx, r)
}

func (a *grpcAgent) SendMessage(ctx context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	return a.send(ctx, r)
}

func (a *grpcAgent) SendStreamingMessage(r *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	return a.stream(r, s)
}

// start serves the agent, and a health service, until the test ends.
func (a *grpcAgent) start(t *testing.T, options ...grpc.ServerOption) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	a2apb.RegisterA2AServiceServer(s, a)
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(listener) // ends by Stop
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

// grpcWorld is a sidecar in front of a, and a client of its gRPC port.
func grpcWorld(t *testing.T, a *grpcAgent, change func(*proxy.Agent)) (*world, a2apb.A2AServiceClient) {
	t.Helper()
	at := a.start(t)
	agent := agentAt("worker", at.String())
	agent.GRPCURL = at
	change(&agent)
	w := newWorld(t, agent)
	return w, w.dialGRPC(t)
}

func task10(id, contextID string, state a2apb.TaskState) *a2apb.Task {
	return &a2apb.Task{Id: id, ContextId: contextID, Status: &a2apb.TaskStatus{State: state}}
}

// A gRPC call loses nothing on its way: not what no SDK knows, nor metadata,
// headers, trailers, a deadline, or compression. Only the context changes.
func TestGRPCCallsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	unknown := []byte{0xfa, 0x3e, 3, 'x', 'y', 'z'} // field 1007
	for _, tt := range []struct {
		name    string
		options []grpc.CallOption
		isolate bool
	}{
		{"as sent", nil, false},
		{"isolated", nil, true},
		{"compressed", []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, false},
		{"compressed and isolated", []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got *a2apb.SendMessageRequest
			var md metadata.MD
			var deadline bool
			answer := &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task10("t1", "", a2apb.TaskState_TASK_STATE_COMPLETED)}}
			answer.ProtoReflect().SetUnknown(unknown)
			w, client := grpcWorld(t, &grpcAgent{send: func(ctx context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
				got = r
				md, _ = metadata.FromIncomingContext(ctx)
				_, deadline = ctx.Deadline()
				answer.GetTask().ContextId = r.GetMessage().GetContextId()
				return answer, errors.Join(
					grpc.SetHeader(ctx, metadata.Pairs("x-head", "1", "x-bin-bin", "\x00\xff")),
					grpc.SetTrailer(ctx, metadata.Pairs("x-trail", "2")))
			}}, func(a *proxy.Agent) { a.Session.Isolate = tt.isolate })

			sent := proto10("m1")
			sent.Message.ContextId = "chat"
			sent.ProtoReflect().SetUnknown(unknown)
			sent.Message.ProtoReflect().SetUnknown(unknown)
			var head, trail metadata.MD
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-said", "a", "x-said", "b", "x-raw-bin", "\x00\x01")
			result, err := client.SendMessage(ctx, sent, append(tt.options, grpc.Header(&head), grpc.Trailer(&trail))...)
			if err != nil {
				t.Fatalf("SendMessage = %v", err)
			}
			if diff := cmp.Diff(answer, result, protocmp.Transform()); diff != "" || !bytes.Equal(result.ProtoReflect().GetUnknown(), unknown) {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			want := proto.CloneOf(sent)
			if tt.isolate {
				want.Message.ContextId = got.GetMessage().GetContextId()
				if want.Message.ContextId == "chat" {
					t.Error("the agent got the context of the caller, want a fresh one")
				}
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("message at the agent (-want +got):\n%s", diff)
			}
			if !bytes.Equal(got.ProtoReflect().GetUnknown(), unknown) || !bytes.Equal(got.GetMessage().ProtoReflect().GetUnknown(), unknown) {
				t.Error("unknown fields were lost on the way to the agent")
			}
			for name, want := range map[string][]string{"x-said": {"a", "b"}, "x-raw-bin": {"\x00\x01"}, "content-length": nil, "x-kagent-root-context-id": {"chat"}} {
				if diff := cmp.Diff(want, md.Get(name)); diff != "" && len(want)+len(md.Get(name)) > 0 {
					t.Errorf("metadata %s at the agent (-want +got):\n%s", name, diff)
				}
			}
			if deadline {
				t.Error("the agent was given a deadline that nobody set")
			}
			for name, want := range map[string]string{"x-head": "1", "x-bin-bin": "\x00\xff", "x-sidecar-context-id": want.Message.ContextId} {
				if got := head.Get(name); len(got) != 1 || got[0] != want {
					t.Errorf("header %s = %q, want %q", name, got, want)
				}
			}
			if got := trail.Get("x-trail"); len(got) != 1 || got[0] != "2" {
				t.Errorf("trailer x-trail = %q, want 2", got)
			}
			w.close()
			if s := w.session(t, "chat"); len(s.Runs) != 1 || s.Runs[0].State != lineage.Completed || s.Runs[0].TaskID != "t1" {
				t.Errorf("runs = %+v, want a completed one of t1", s.Runs)
			}
		})
	}
}

// An agent's gRPC interface may want TLS, and may be elsewhere than its card.
func TestGRPCOverTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	agent := &grpcAgent{send: func(_ context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
		task := task10("t1", r.GetMessage().GetContextId(), a2apb.TaskState_TASK_STATE_COMPLETED)
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}, nil
	}}
	at := agent.start(t, grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	at.Scheme = "https"
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	a := isolated("worker", certified.URL)
	a.TLS, a.GRPCURL = &tls.Config{RootCAs: roots}, at
	w := newWorld(t, a)
	result, err := w.dialGRPC(t).SendMessage(metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", "top"), proto10("m1"))
	if err != nil || result.GetTask().GetId() != "t1" {
		t.Fatalf("SendMessage = %v, %v; want task t1", result, err)
	}
	w.state(t, "top", lineage.Completed, "")
}

// A stream that ends in an error is recorded up to there, and the error passes.
func TestGRPCStreamEndsInError(t *testing.T) {
	t.Parallel()
	w, client := grpcWorld(t, &grpcAgent{stream: func(_ *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
		working := &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task10("t1", "c1", a2apb.TaskState_TASK_STATE_WORKING)}}
		if err := s.Send(working); err != nil {
			return err
		}
		return status.Error(codes.DataLoss, "100% lost: ü")
	}}, func(a *proxy.Agent) { a.Session.Isolate = true })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", "top")
	stream, err := client.SendStreamingMessage(ctx, proto10("m1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("first message: %v", err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.DataLoss || status.Convert(err).Message() != "100% lost: ü" {
		t.Errorf("end of the stream = %v, want the agent's error", err)
	}
	w.state(t, "top", lineage.Failed, "agent_error")
}

// A caller that goes away takes the call at the agent along, though not its task:
// that may have been left at work.
func TestGRPCCallerGoesAway(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	w, client := grpcWorld(t, &grpcAgent{stream: func(_ *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
		err := s.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task10("t1", "c1", a2apb.TaskState_TASK_STATE_WORKING)}})
		<-s.Context().Done()
		close(gone)
		return err
	}}, func(a *proxy.Agent) { a.Session.Isolate = true })
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", "top"))
	stream, err := client.SendStreamingMessage(ctx, proto10("m1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-gone
	within(t, "no call holds the run", func() bool { return w.record.Open() == 0 })
	w.state(t, "top", lineage.Active, "")
}

// What is gRPC but not A2A passes, streams in both directions included.
func TestOtherGRPCPasses(t *testing.T) {
	t.Parallel()
	w, _ := grpcWorld(t, &grpcAgent{}, func(*proxy.Agent) {})
	conn, err := grpc.NewClient(w.listenGRPC(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := healthpb.NewHealthClient(conn)
	if got, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health = %v, %v; want serving", got, err)
	}
	if err := conn.Invoke(t.Context(), "/no.such.Service/Method", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method = %v, want Unimplemented", err)
	}
	watch, err := c.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("watching = %v, %v; want serving", got, err)
	}
}

// The gRPC port takes nothing else, and the outbound port takes no gRPC call
// that names no agent.
func TestGRPCPortTakesGRPC(t *testing.T) {
	t.Parallel()
	w, _ := grpcWorld(t, &grpcAgent{}, func(*proxy.Agent) {})
	addr := w.listenGRPC(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("GET at the gRPC port = %d, want 415", resp.StatusCode)
	}
	out := httptest.NewUnstartedServer(w.proxy)
	out.Config.Protocols = new(http.Protocols)
	out.Config.Protocols.SetUnencryptedHTTP2(true)
	out.Start()
	t.Cleanup(out.Close)
	conn, err := grpc.NewClient(out.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := a2apb.NewA2AServiceClient(conn).SendMessage(t.Context(), proto10("m1")); status.Code(err) != codes.NotFound {
		t.Errorf("call that names no agent = %v, want NotFound", err)
	}
}
