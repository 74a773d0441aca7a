package proxy_test

import (
	"context"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// The limit of a request is not got around by packing it.
func TestGRPCMaxBodyOfPackedCalls(t *testing.T) {
	t.Parallel()
	const maxBody = 64 << 10
	calls := 0
	agent := &grpcAgent{send: func(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
		calls++
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task10("t1", "c1", a2apb.TaskState_TASK_STATE_COMPLETED)}}, nil
	}}
	at := agent.start(t)
	a := agentAt("worker", at.String())
	a.GRPCURL = at
	w := newWorldWith(t, func(_ *sessions.Options, o *proxy.Options) { o.MaxBody = maxBody }, a)
	client := w.dialGRPC(t)
	for _, tt := range []struct {
		size int
		want codes.Code
	}{
		{maxBody / 4, codes.OK}, {maxBody, codes.ResourceExhausted},
	} {
		m := proto10("m1")
		m.Message.Parts[0].Content = &a2apb.Part_Text{Text: strings.Repeat("x", tt.size)}
		if _, err := client.SendMessage(t.Context(), m, grpc.UseCompressor(gzip.Name)); status.Code(err) != tt.want {
			t.Errorf("SendMessage of %d bytes, packed = %v, want %v", tt.size, err, tt.want)
		}
	}
	if calls != 1 {
		t.Errorf("agent got %d calls, want the small one", calls)
	}
}

// An answer of which a few bytes stand for many passes, and what follows it is
// still read.
func TestGRPCAnswersThatBlowUpPass(t *testing.T) {
	t.Parallel()
	const size = 3 << 20 // what clients of grpc-go take, as JSON 18 MiB
	w, client := grpcWorld(t, &grpcAgent{stream: func(_ *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
		working := task10("t1", "c1", a2apb.TaskState_TASK_STATE_WORKING)
		working.Status.Message = &a2apb.Message{MessageId: "x", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: strings.Repeat("\x01", size)}}}}
		for _, task := range []*a2apb.Task{working, task10("t1", "c1", a2apb.TaskState_TASK_STATE_COMPLETED)} {
			if err := s.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
				return err
			}
		}
		return nil
	}}, func(a *proxy.Agent) { a.Session.Isolate = true })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", "top")
	stream, err := client.SendStreamingMessage(ctx, proto10("m1"), grpc.UseCompressor(gzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if text := first.GetTask().GetStatus().GetMessage().GetParts()[0].GetText(); err != nil || len(text) != size {
		t.Fatalf("first message has a text of %d bytes, %v; want %d", len(text), err, size)
	}
	if second, err := stream.Recv(); err != nil || second.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Fatalf("second message = %v, %v; want that the task is completed", second, err)
	}
	w.state(t, "top", lineage.Completed, "")
}
