package proxy_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// An agent whose gRPC interface comes back at another port is found there: its
// card says where.
func TestGRPCInterfaceMoves(t *testing.T) {
	t.Parallel()
	agent := &grpcAgent{send: func(_ context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
		task := task10("t-"+r.GetMessage().GetMessageId(), r.GetMessage().GetContextId(), a2apb.TaskState_TASK_STATE_COMPLETED)
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}, nil
	}}
	var card atomic.Value
	cards := newFake(t, func(w http.ResponseWriter, r *http.Request) { says(card.Load().(string))(w, r) })
	w := newWorld(t, isolated("worker", cards.URL))
	client := w.dialGRPC(t)
	for _, root := range []string{"before", "after"} {
		t.Run(root, func(t *testing.T) {
			at := agent.start(t) // until this subtest ends
			card.Store(grpcOnly(at.String()))
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", root)
			if got, err := client.SendMessage(ctx, proto10(root)); err != nil || got.GetTask().GetId() != "t-"+root {
				t.Fatalf("SendMessage = %v, %v; want a task", got, err)
			}
			w.state(t, root, lineage.Completed, "")
			if places := w.proxy.GRPCPlaces("worker"); len(places) != 1 || places[0] != at.String() {
				t.Errorf("places = %v, want %s alone", places, at)
			}
		})
		// What is left is that to the cards.
		within(t, "the connection to the place is closed", func() bool { return w.proxy.Connections("worker") <= 1 })
	}
}
