package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// JSON-RPC codes of refusals. A2A leaves -32000..-32099 to servers, and uses
// -32001..-32009 itself.
const (
	codeRetryable   = -32050
	codeFinal       = -32051
	codeUnavailable = -32052
	codeBadAnswer   = -32006 // A2A: InvalidAgentResponseError
	codeInvalid     = wire.CodeInvalid
)

// Reasons of refusals that no cap causes. (Those that one does are lineage's.)
const (
	reasonUnknownAgent lineage.Reason = "UNKNOWN_AGENT"
	reasonMalformed    lineage.Reason = "MALFORMED_REQUEST"
	reasonTooLarge     lineage.Reason = "BODY_TOO_LARGE"
	reasonInvalidCard  lineage.Reason = "INVALID_AGENT_CARD"
)

// errorDomain is the domain of ErrorInfo in every error that the sidecar makes
// itself, so that nobody takes it for the agent's.
const errorDomain = "a2a-sidecar"

// retryDelay is what a caller is told to wait before it tries again.
const retryDelay = time.Second

// fault is an answer that the sidecar gives itself, in terms of no binding.
type fault struct {
	code     int // JSON-RPC
	status   int // HTTP, in bindings where errors have one of their own
	rpcHTTP  int // HTTP, in JSON-RPC: 200, since SDKs read the body of nothing else
	reason   lineage.Reason
	message  string
	metadata map[string]string
	retry    bool
}

// refusal turns an error of admission into an answer.
func refusal(err error) fault {
	var r *lineage.Refusal
	if !errors.As(err, &r) {
		return fault{
			code: codeUnavailable, status: http.StatusServiceUnavailable, rpcHTTP: http.StatusOK, retry: true,
			reason: lineage.StoreUnavailable, message: "the sidecar could not admit the call; retry later",
		}
	}
	f := fault{rpcHTTP: http.StatusOK, reason: r.Reason, message: r.Error(), retry: r.Retryable()}
	switch {
	case r.Waiting():
		f.code, f.status = codeRetryable, http.StatusTooManyRequests
	case r.Retryable():
		f.code, f.status = codeUnavailable, http.StatusServiceUnavailable
	default:
		f.code, f.status = codeFinal, http.StatusBadRequest
	}
	f.metadata = map[string]string{"agent": r.Agent}
	if r.Limit != "" {
		f.metadata["limit"] = r.Limit
		f.metadata["value"] = strconv.Itoa(r.Value)
		f.metadata["count"] = strconv.Itoa(r.Count)
	}
	if r.Parent != "" {
		f.metadata["parent"] = r.Parent
	}
	return f
}

// unreachable is for calls of which no byte has left.
func unreachable(u *upstream) fault {
	return refusal(&lineage.Refusal{Reason: lineage.AgentUnreachable, Agent: u.Session.Name})
}

// brokenOff is for calls that got no answer. The agent may have acted on them,
// so nothing says that they are to be sent again.
func brokenOff(u *upstream) fault {
	f := unreachable(u)
	f.message = "agent " + u.Session.Name + " broke off before it answered; it may have acted on the call"
	f.status, f.retry = http.StatusBadGateway, false
	return f
}

func invalidCard(e *cardError) fault {
	return fault{
		code: codeBadAnswer, status: http.StatusBadGateway, rpcHTTP: http.StatusOK,
		reason: reasonInvalidCard, message: e.Error(), metadata: map[string]string{"agent": e.agent},
	}
}

func malformed(code int, what string) fault {
	return fault{code: code, status: http.StatusBadRequest, rpcHTTP: http.StatusOK, reason: reasonMalformed, message: what}
}

func tooLarge(limit int64) fault {
	return fault{
		code: codeInvalid, status: http.StatusRequestEntityTooLarge, rpcHTTP: http.StatusRequestEntityTooLarge,
		reason: reasonTooLarge, message: fmt.Sprintf("request body is larger than %d bytes (limitsHTTP.maxBody)", limit),
	}
}

func unknownAgent(name string) fault {
	return fault{
		code: codeInvalid, status: http.StatusNotFound, rpcHTTP: http.StatusNotFound,
		reason: reasonUnknownAgent, message: fmt.Sprintf("no agent named %q is configured", name),
	}
}

// asked is what an answer must know of the request that it answers.
type asked struct {
	id        []byte // raw JSON-RPC id; nil: null
	version   wire.Version
	streaming bool
}

func askedOf(r *wire.Request) asked {
	return asked{id: r.ID, version: r.Version, streaming: r.Op.Streaming()}
}

// unread is what is known of a request whose body tells nothing: what its
// headers hint at.
func unread(r *http.Request) asked {
	var q asked
	if strings.HasPrefix(r.Header.Get("A2A-Version"), "1") {
		q.version = wire.V10
	}
	accept := r.Header.Get("Accept")
	q.streaming = strings.Contains(accept, "text/event-stream") && !strings.Contains(accept, "json")
	return q
}

// askedBy is what is known of a request whose body was refused.
func askedBy(r *http.Request, bad *wire.Error) asked {
	if bad.Op == wire.OpOther { // the method could not be read
		q := unread(r)
		q.id = bad.ID
		return q
	}
	return asked{id: bad.ID, version: bad.Version, streaming: bad.Op.Streaming()}
}

// askedAnyway reads what an answer must know out of a body of any quality.
func askedAnyway(r *http.Request, body []byte) asked {
	req, err := wire.Read(body)
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		return askedBy(r, bad)
	}
	return askedOf(req)
}

// rpcError is a JSON-RPC response with an error.
type rpcError struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    []any  `json:"data,omitempty"`
	} `json:"error"`
}

// data is the google.rpc details of A2A 1.0 §9.5. 0.3 gets none: of its SDKs
// one wants an object there and another an array.
func (f fault) data(v wire.Version) []any {
	if v != wire.V10 {
		return nil
	}
	info := map[string]any{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": f.reason, "domain": errorDomain,
	}
	if len(f.metadata) > 0 {
		info["metadata"] = f.metadata
	}
	data := []any{info}
	if f.retry {
		data = append(data, map[string]any{
			"@type":      "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay": strconv.FormatFloat(retryDelay.Seconds(), 'f', -1, 64) + "s",
		})
	}
	return data
}

// writeRPC answers a JSON-RPC request with f. A streaming method gets one event
// instead of a body, which some clients would read as an empty stream.
func (p *Proxy) writeRPC(w http.ResponseWriter, q asked, f fault) {
	var e rpcError
	e.JSONRPC, e.ID = "2.0", rawID(q.id)
	e.Error.Code, e.Error.Message, e.Error.Data = f.code, f.message, f.data(q.version)
	p.writeJSON(w, q.streaming, f.rpcHTTP, e)
}

// rawID is an id as it may be echoed: one that is no UTF-8 would make the
// answer no JSON.
func rawID(id []byte) json.RawMessage {
	if id == nil || !utf8.Valid(id) {
		return json.RawMessage("null")
	}
	return id
}

// writeJSON writes values as one JSON body, or as one event each.
func (p *Proxy) writeJSON(w http.ResponseWriter, stream bool, status int, values ...any) {
	var out []byte
	for _, v := range values {
		body, err := json.Marshal(v)
		if err != nil {
			p.log.Error("encoding an answer failed", "error", err)
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		if stream {
			out = sse.AppendEvent(out, sse.Event{Data: body})
		} else {
			out = append(out, body...)
		}
	}
	h := w.Header()
	if stream {
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
	} else {
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(out)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(out) // a caller that has gone needs no answer
}

// writeTask answers a refused send with a task that failed, for callers that
// show an agent's words better than a protocol's (refuse: task).
func (p *Proxy) writeTask(w http.ResponseWriter, q asked, contextID string, f fault) {
	if contextID == "" {
		contextID = uuid.NewString()
	}
	taskID, now := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
	respond := func(result any) any {
		return map[string]any{"jsonrpc": "2.0", "id": rawID(q.id), "result": result}
	}
	message := map[string]any{"messageId": uuid.NewString(), "taskId": taskID, "contextId": contextID}
	status := map[string]any{"timestamp": now, "message": message}
	task := map[string]any{"id": taskID, "contextId": contextID, "status": status}
	if q.version == wire.V10 {
		message["role"], message["parts"] = "ROLE_AGENT", []any{map[string]any{"text": f.message}}
		status["state"] = "TASK_STATE_FAILED"
		p.writeJSON(w, q.streaming, http.StatusOK, respond(map[string]any{"task": task}))
		return
	}
	message["kind"], message["role"] = "message", "agent"
	message["parts"] = []any{map[string]any{"kind": "text", "text": f.message}}
	status["state"] = "failed"
	task["kind"] = "task"
	if !q.streaming {
		p.writeJSON(w, false, http.StatusOK, respond(task))
		return
	}
	// A 0.3 stream ends with a status update that says so.
	p.writeJSON(w, true, http.StatusOK, respond(task), respond(map[string]any{
		"kind": "status-update", "taskId": taskID, "contextId": contextID, "status": status, "final": true,
	}))
}

// writeHTTP answers a request that is no JSON-RPC with f, in the shape of the
// HTTP+JSON binding's errors (A2A 1.0 §11.6).
func (p *Proxy) writeHTTP(w http.ResponseWriter, f fault) {
	if f.retry {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryDelay.Seconds())))
	}
	p.writeJSON(w, false, f.status, map[string]any{"error": map[string]any{
		"code": f.status, "status": grpcStatus(f.status), "message": f.message, "details": f.data(wire.V10),
	}})
}

// grpcStatus is the google.rpc.Code that goes with an HTTP status.
func grpcStatus(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return "RESOURCE_EXHAUSTED"
	default:
		return "UNAVAILABLE"
	}
}
