package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// restBinding is the HTTP+JSON binding (A2A 0.3 §3.2.3, 1.0 §11). Its errors are what
// any other request gets that is answered by the sidecar.
type restBinding struct{}

// isREST reports whether a request is a call of the HTTP+JSON binding. Calls for
// cards are looked for before it.
func isREST(r *http.Request, rest string) bool {
	_, ok := wire.MatchREST(r.Method, rest)
	return ok
}

func (restBinding) read(r *http.Request, rest string, body []byte) (*wire.Request, error) {
	return wire.ReadREST(wire.RESTCall{Verb: r.Method, Path: rest, Query: r.URL.RawQuery, Version: versionOf(r)}, body)
}

func (restBinding) encode(message []byte) []byte { return message }

func (restBinding) reading(_ *wire.Request, resp *http.Response) reading {
	return newJSONReading(resp, wire.ReadResult)
}

func (restBinding) rewriteCard(_ *wire.Request, body []byte, each func(binding, url string) (string, bool)) ([]byte, error) {
	return wire.RewriteCard(body, each)
}

func (restBinding) rewritePush(_ *wire.Request, body []byte, each func(url string) string) ([]byte, error) {
	return wire.RewritePush(wire.REST, body, each)
}

func (restBinding) asked(r *http.Request) asked { return asked{version: versionOf(r)} }

// fault answers in the shape of A2A 1.0 §11.6, which is that of google.rpc's
// HTTP mapping. A stream that never began is refused by its status, too.
func (restBinding) fault(w http.ResponseWriter, _ asked, f fault) error {
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": f.status, "status": f.statusName(), "message": f.message, "details": f.data(wire.V10),
	}})
	if err != nil {
		return err
	}
	if f.retry {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryDelay.Seconds())))
	}
	answer(w, typeJSON, f.status, body)
	return nil
}

// task answers as ProtoJSON has it, in the field names of the version.
func (restBinding) task(w http.ResponseWriter, q asked, t failedTask) error {
	var result any = wrapped{t.json10()}
	switch {
	case q.unversioned:
		result = t.json03()
	case q.version == wire.V03:
		result = wrapped{t.proto03()}
	}
	body, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if q.streaming {
		answer(w, typeStream, http.StatusOK, sse.AppendEvent(nil, sse.Event{Data: body}))
	} else {
		answer(w, typeJSON, http.StatusOK, body)
	}
	return nil
}
