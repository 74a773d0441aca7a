package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc03 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc10 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// ownName is what the sidecar calls itself where it calls agents of its own
// accord: as the host of its door, and to them.
const ownName = "a2a-sidecar"

// outreach makes the calls of the sidecar's own accord, by its door. It
// implements [sessions.Outreach].
type outreach struct{ *Proxy }

// CancelTask implements [sessions.Outreach].
func (o outreach) CancelTask(ctx context.Context, t sessions.Task) error {
	err := o.ask(ctx, t, func(c *a2aclient.Client) error {
		_, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: a2a.TaskID(t.ID)})
		return err
	})
	if errors.Is(err, a2a.ErrTaskNotFound) || errors.Is(err, a2a.ErrTaskNotCancelable) {
		return nil // there is nothing to cancel
	}
	return err
}

// GetTask implements [sessions.Outreach].
func (o outreach) GetTask(ctx context.Context, t sessions.Task) error {
	err := o.ask(ctx, t, func(c *a2aclient.Client) error {
		_, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: a2a.TaskID(t.ID), HistoryLength: new(int)})
		return err
	})
	if errors.Is(err, a2a.ErrTaskNotFound) || errors.Is(err, errNotThere) {
		return fmt.Errorf("%w: %w", sessions.ErrTaskGone, err)
	}
	return err
}

// errNotThere: the agent of a call of the sidecar's own cannot be connected to.
var errNotThere = errors.New("the agent cannot be connected to")

// ask makes a call about a task: in its caller's voice, or where that is not
// known, in whichever way the agent is known to be called.
func (o outreach) ask(ctx context.Context, t sessions.Task, do func(*a2aclient.Client) error) error {
	u := o.agents[t.Agent]
	if u == nil {
		return fmt.Errorf("no agent named %q is configured", t.Agent)
	}
	ctx = log.AttachLogger(ctx, o.log)
	if v, ok := t.As.(*voice); ok {
		return o.call(ctx, &ownCall{agent: u, voice: v}, []*a2a.AgentInterface{v.offer(u)}, do)
	}
	var all error
	for _, offers := range o.offers(ctx, u) {
		err := o.call(ctx, &ownCall{agent: u}, offers, do)
		if err == nil || ctx.Err() != nil || errors.Is(err, errNotThere) ||
			errors.Is(err, a2a.ErrTaskNotFound) || errors.Is(err, a2a.ErrTaskNotCancelable) {
			return err
		}
		all = errors.Join(all, err)
	}
	return all
}

// call makes a call by the best of the interfaces that are offered. The error
// wraps a2a-go's for what the agent has answered, or errNotThere.
func (o outreach) call(ctx context.Context, own *ownCall, offers []*a2a.AgentInterface, do func(*a2aclient.Client) error) error {
	hc, release := o.client(own)
	defer release()
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // it does not leave the process
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.door.dial(ctx, own) }),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxSeen)),
	}
	c, err := a2aclient.NewFromEndpoints(
		ctx, offers, a2aclient.WithDefaultsDisabled(),
		a2aclient.WithJSONRPCTransport(hc), a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: hc}),
		a2aclient.WithRESTTransport(hc), a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: hc}),
		grpc10.WithGRPCTransport(options...), grpc03.WithGRPCTransport(options...),
	)
	if err != nil {
		return fmt.Errorf("calling agent %s: %w", own.agent.Session.Name, err)
	}
	err = own.outcome(do(c))
	if closed := c.Destroy(); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("calling agent %s: %w", own.agent.Session.Name, err)
	}
	return nil
}

// client returns an HTTP client for one call, and what releases it.
func (o outreach) client(own *ownCall) (hc *http.Client, release func()) {
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return o.door.dial(ctx, own) },
		DisableCompression: true,
	}
	return &http.Client{
		Transport: bounded{t},
		// The caller was not redirected, and its credentials go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, t.CloseIdleConnections
}

// bounded reads no more of an answer than the tap would. The SDK's clients read
// whatever comes.
type bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxSeen)
	}
	return resp, err
}

// offer is the interface of u that v spoke to, as the door has it.
func (v *voice) offer(u *upstream) *a2a.AgentInterface {
	return &a2a.AgentInterface{
		URL:             u.byDoor(v.binding, v.base),
		ProtocolBinding: a2a.TransportProtocol(v.binding.String()),
		ProtocolVersion: a2a.ProtocolVersion(v.version.String()),
		Tenant:          v.tenant,
	}
}

// byDoor is the URL of an interface under the escaped path base below the agent.
func (u *upstream) byDoor(b wire.Binding, base string) string {
	if b == wire.GRPC {
		return "passthrough:///" + ownName // the door knows whose connection it is
	}
	return "http://" + ownName + agentsPrefix + u.Session.Name + base
}

// offers returns the interfaces of an agent that are worth a try, those first
// whose failing makes the next ones so: what its card names, or without one, what
// most agents have.
func (o outreach) offers(ctx context.Context, u *upstream) [][]*a2a.AgentInterface {
	hc, release := o.client(&ownCall{agent: u})
	defer release()
	resolver := &agentcard.Resolver{Client: hc, CardParser: a2av0.NewAgentCardParser()}
	card, err := resolver.Resolve(ctx, u.byDoor(wire.JSONRPC, ""))
	if err != nil {
		o.log.DebugContext(ctx, "agent's card is not known", "agent", u.Session.Name, "error", err)
		card = &a2a.AgentCard{}
	}
	var named []*a2a.AgentInterface
	for _, i := range card.SupportedInterfaces {
		b := bindingNamed(string(i.ProtocolBinding))
		if b == unknownBinding {
			continue
		}
		i.ProtocolBinding = a2a.TransportProtocol(b.String())
		if rest, ok := u.below(i.URL); b == wire.GRPC || ok && u.CardsAsSent {
			i.URL = u.byDoor(b, rest)
		}
		named = append(named, i)
	}
	if len(named) > 0 {
		return [][]*a2a.AgentInterface{named}
	}
	return [][]*a2a.AgentInterface{
		{(&voice{binding: wire.JSONRPC, version: wire.V10}).offer(u)},
		{(&voice{binding: wire.JSONRPC, version: wire.V03}).offer(u)},
	}
}

// ownCall is a call of the sidecar's own accord, as its client and the exchange
// that carries it see it. The methods that the exchange calls do nothing on nil,
// which is anybody else's call.
type ownCall struct {
	agent *upstream
	voice *voice // nil: nobody's

	answered atomic.Bool           // the agent's answer was understood, and is no error
	status   atomic.Int32          // HTTP, of HTTP+JSON
	refused  atomic.Pointer[fault] // the sidecar's own answer
}

// saw takes note of what the agent answered.
func (c *ownCall) saw(u wire.Update) {
	if c != nil && u.Kind == wire.UpdateTask {
		c.answered.Store(true)
	}
}

// began takes note of the head of an answer.
func (c *ownCall) began(b binding, status int) {
	if _, ok := b.(restBinding); ok && c != nil {
		c.status.Store(int32(status)) //nolint:gosec // three digits
	}
}

// refusedBy takes note of what the sidecar answered in the agent's place.
func (c *ownCall) refusedBy(f fault) {
	if c != nil {
		c.refused.Store(&f)
	}
}

// outcome is what became of the call, of which its client says err. What the tap
// could read was answered, though the client may be stricter. What the agent
// says in words is left out: it may tell of the task.
func (c *ownCall) outcome(err error) error {
	if err == nil || c.answered.Load() {
		return nil
	}
	if f := c.refused.Load(); f != nil {
		if f.reason == lineage.AgentUnreachable && f.retry { // no byte has left
			return errNotThere
		}
		return fmt.Errorf("%s: %s", f.reason, f.message)
	}
	switch c.status.Load() { // A2A 1.0 §5.4; agents of 0.3 say no more than this
	case http.StatusNotFound:
		return a2a.ErrTaskNotFound
	case http.StatusConflict:
		return a2a.ErrTaskNotCancelable
	}
	if answer, ok := errors.AsType[*a2a.Error](err); ok {
		return cmp.Or(answer.Err, a2a.ErrInternalError)
	}
	return err
}

// serveOwn serves the door.
func (p *Proxy) serveOwn(w http.ResponseWriter, r *http.Request) {
	own := ownOf(r.Context())
	r.Header.Set("User-Agent", ownName)
	if own.voice != nil {
		own.voice.speaks(p, r)
	}
	if !isGRPC(r) {
		p.ServeHTTP(w, r)
		return
	}
	x := &exchange{
		proxy: p, agent: own.agent, own: own, in: r, rest: r.URL.EscapedPath(), binding: grpcBinding{maxBody: p.maxBody}, began: p.tel.now(),
	}
	p.grpc(r.Context(), w, x, isGRPCMethod(x.rest))
}
