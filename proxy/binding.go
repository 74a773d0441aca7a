package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// binding is how one binding of A2A puts calls, answers and errors on HTTP.
// What becomes of a call is the same in all of them.
type binding interface {
	// read reads a call to the escaped path rest, below the agent. The error is
	// a *wire.Error, or errTooLarge of a body that is so once unpacked.
	read(r *http.Request, rest string, body []byte) (*wire.Request, error)
	// encode returns the body in which an edited message leaves.
	encode(message []byte) []byte
	// reading follows an answer to req, whose head is resp.
	reading(req *wire.Request, resp *http.Response) reading
	// rewriteCard and rewritePush edit the body of an answer: the interfaces of
	// the card in it, and the URLs of the push configurations in it. If nothing
	// is to change they return the same slice.
	rewriteCard(req *wire.Request, body []byte, each func(binding, url string) (string, bool)) ([]byte, error)
	rewritePush(req *wire.Request, body []byte, each func(url string) string) ([]byte, error)
	// asked says what an answer must know of a request whose body tells nothing.
	asked(r *http.Request) asked
	// fault answers with an error.
	fault(w http.ResponseWriter, q asked, f fault) error
	// task answers a send with a task.
	task(w http.ResponseWriter, q asked, t failedTask) error
}

// bindingOf tells in which binding a request to the escaped path rest, below an
// agent, is to be answered, and whether it is a call of A2A. What is none gets
// errors as HTTP+JSON has them.
func (p *Proxy) bindingOf(r *http.Request, rest string) (b binding, isCall bool) {
	switch {
	case isGRPC(r):
		return grpcBinding{maxBody: p.maxBody}, isGRPCMethod(rest)
	case isREST(r, rest):
		return restBinding{}, true
	case isRPC(r):
		return rpcBinding{}, true
	default:
		return restBinding{}, false
	}
}

// asked is what an answer must know of the request that it answers.
type asked struct {
	id        []byte // raw JSON-RPC id; nil: null
	version   wire.Version
	streaming bool
	// unversioned is a 0.3 call of HTTP+JSON to a path without its /v1. Only
	// a2a-go's clients make such calls, and read answers as JSON-RPC has them.
	unversioned bool
}

func askedOf(r *wire.Request) asked {
	return asked{id: r.ID, version: r.Version, streaming: r.Op.Streaming()}
}

// versionOf is the version of A2A that a request states: by its header, or by a
// parameter of its URL (A2A 1.0 §3.6.1). One that states none is 0.3's.
func versionOf(r *http.Request) wire.Version {
	stated := r.Header.Get(a2a.SvcParamVersion)
	if stated == "" && strings.Contains(r.URL.RawQuery, a2a.SvcParamVersion) {
		stated = r.URL.Query().Get(a2a.SvcParamVersion)
	}
	if strings.HasPrefix(strings.TrimSpace(stated), "1") {
		return wire.V10
	}
	return wire.V03
}

// answer writes a body that is known whole. A caller that has gone needs none.
func answer(w http.ResponseWriter, contentType string, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if contentType == typeStream {
		h.Set("Cache-Control", "no-cache")
	} else {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Content types of answers.
const (
	typeJSON   = "application/json" // for HTTP+JSON too: some clients read errors of no other
	typeStream = "text/event-stream"
	typeGRPC   = "application/grpc"
)
