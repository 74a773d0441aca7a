package agents

import (
	"context"
	"net/http"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Asked is a call about a task as it came to the agent.
type Asked struct {
	Method string // as A2A 1.0 names it: GetTask, CancelTask, SubscribeToTask
	TaskID string
	Tenant string
	Header http.Header // of the HTTP request
}

// Asked returns the calls about tasks that came, in order.
func (a *Agent) Asked() []Asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// interceptor notes what the agent is asked. Its methods are called by the SDK.
type interceptor struct {
	a2asrv.PassthroughCallInterceptor
	agent *Agent
}

// Before implements [a2asrv.CallInterceptor].
func (i interceptor) Before(ctx context.Context, call *a2asrv.CallContext, req *a2asrv.Request) (context.Context, any, error) {
	asked := Asked{Method: call.Method(), Tenant: call.Tenant()}
	switch r := req.Payload.(type) {
	case *a2a.GetTaskRequest:
		asked.TaskID = string(r.ID)
	case *a2a.CancelTaskRequest:
		asked.TaskID = string(r.ID)
	case *a2a.SubscribeToTaskRequest:
		asked.TaskID = string(r.ID)
	default:
		return ctx, nil, nil
	}
	asked.Header, _ = ctx.Value(headerKey{}).(http.Header)
	i.agent.mu.Lock()
	defer i.agent.mu.Unlock()
	i.agent.asked = append(i.agent.asked, asked)
	return ctx, nil, nil
}
