package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
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
	code     int       // JSON-RPC
	status   int       // HTTP, in HTTP+JSON
	rpcHTTP  int       // HTTP, in JSON-RPC: 200, since SDKs read the body of nothing else
	grpc     code.Code // gRPC; its name is the status of HTTP+JSON
	reason   lineage.Reason
	message  string
	metadata map[string]string
	retry    bool
	quota    bool // a cap is used up: there is a QuotaFailure to tell of
}

// refusal turns an error of admission into an answer.
func refusal(err error) fault {
	var r *lineage.Refusal
	if !errors.As(err, &r) {
		return fault{
			code: codeUnavailable, status: http.StatusServiceUnavailable, rpcHTTP: http.StatusOK, grpc: code.Code_UNAVAILABLE, retry: true,
			reason: lineage.StoreUnavailable, message: "the sidecar could not admit the call; retry later",
		}
	}
	f := fault{rpcHTTP: http.StatusOK, reason: r.Reason, message: r.Error(), retry: r.Retryable()}
	switch {
	case r.Waiting():
		f.code, f.status, f.grpc = codeRetryable, http.StatusTooManyRequests, code.Code_RESOURCE_EXHAUSTED
		f.quota = true
	case r.Retryable():
		f.code, f.status, f.grpc = codeUnavailable, http.StatusServiceUnavailable, code.Code_UNAVAILABLE
	default:
		f.code, f.status, f.grpc = codeFinal, http.StatusBadRequest, code.Code_FAILED_PRECONDITION
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

// sessionEnded is for calls whose session was ended before the agent answered.
func sessionEnded(u *upstream, why *sessions.Ended) fault {
	f := refusal(&lineage.Refusal{Reason: lineage.SessionEnded, Agent: u.Session.Name})
	f.message = why.Error() + "; retrying does not help"
	f.metadata["session"] = why.Session
	return f
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
		code: codeBadAnswer, status: http.StatusBadGateway, rpcHTTP: http.StatusOK, grpc: code.Code_INTERNAL,
		reason: reasonInvalidCard, message: e.Error(), metadata: map[string]string{"agent": e.agent},
	}
}

func malformed(rpcCode int, what string) fault {
	return fault{
		code: rpcCode, status: http.StatusBadRequest, rpcHTTP: http.StatusOK, grpc: code.Code_INVALID_ARGUMENT,
		reason: reasonMalformed, message: what,
	}
}

func tooLarge(limit int64) fault {
	return fault{
		code: codeInvalid, status: http.StatusRequestEntityTooLarge, rpcHTTP: http.StatusRequestEntityTooLarge,
		grpc: code.Code_RESOURCE_EXHAUSTED, reason: reasonTooLarge, message: fmt.Sprintf("request body is larger than %d bytes (limitsHTTP.maxBody)", limit),
	}
}

func unknownAgent(name string) fault {
	return fault{
		code: codeInvalid, status: http.StatusNotFound, rpcHTTP: http.StatusNotFound,
		grpc: code.Code_NOT_FOUND, reason: reasonUnknownAgent, message: fmt.Sprintf("no agent named %q is configured", name),
	}
}

func noSuchPath() fault {
	return fault{
		status: http.StatusNotFound, grpc: code.Code_NOT_FOUND, reason: reasonUnknownAgent,
		message: "no such path; agents are at " + agentsPrefix + "{name}/",
	}
}

// noGRPCCall is for what is neither a gRPC call nor anything else where only
// those are taken.
func noGRPCCall() fault {
	return fault{
		status: http.StatusUnsupportedMediaType, grpc: code.Code_INVALID_ARGUMENT, reason: reasonMalformed,
		message: "only gRPC calls are taken here: POST over HTTP/2 with content-type " + typeGRPC,
	}
}

// stopping is for gRPC calls that end because their sidecar does.
var stopping = fault{grpc: code.Code_UNAVAILABLE, reason: lineage.AgentUnreachable, message: "the call was cut off"}

// statusName is the name of f's google.rpc.Code.
func (f fault) statusName() string { return f.grpc.String() }

// subject names whose quota is used up.
func (f fault) subject() string {
	if parent, ok := f.metadata["parent"]; ok && f.reason != lineage.ConcurrencyLimit {
		return "session:" + parent
	}
	return "agent:" + f.metadata["agent"]
}

// data is the google.rpc details of A2A 1.0 §9.5, as ProtoJSON. 0.3 gets none:
// of its SDKs one wants an object there and another an array.
func (f fault) data(v wire.Version) []any {
	if v != wire.V10 {
		return nil
	}
	const rpcType = "type.googleapis.com/google.rpc."
	info := object{"@type": rpcType + "ErrorInfo", "reason": f.reason, "domain": errorDomain}
	if len(f.metadata) > 0 {
		info["metadata"] = f.metadata
	}
	data := []any{info}
	if f.retry {
		data = append(data, object{
			"@type":      rpcType + "RetryInfo",
			"retryDelay": strconv.FormatFloat(retryDelay.Seconds(), 'f', -1, 64) + "s",
		})
	}
	if f.quota {
		data = append(data, object{
			"@type":      rpcType + "QuotaFailure",
			"violations": []any{object{"subject": f.subject(), "description": f.message}},
		})
	}
	return data
}
