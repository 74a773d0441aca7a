package proxy

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"unicode/utf8"

	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// isRPC reports whether a request is a JSON-RPC call, or a broken one: a POST
// that calls its body JSON, or calls it nothing. Many agents never ask what a
// body is called, so one that is called anything else counts if it looks like
// JSON. To find out, the start of the body may be read, and put back.
func isRPC(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	types := r.Header["Content-Type"]
	if len(types) == 0 {
		return true
	}
	for _, ct := range types {
		media, _, _ := strings.Cut(ct, ";")
		if media = strings.ToLower(textproto.TrimString(media)); media == "" || strings.HasSuffix(media, "json") {
			return true
		}
	}
	return startsJSON(r)
}

// startsJSON reports whether the first byte of r's body that is no whitespace
// opens a JSON object or array.
func startsJSON(r *http.Request) bool {
	const far = 512
	body := bufio.NewReaderSize(r.Body, far)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	for n := 1; n <= far; n++ {
		start, err := body.Peek(n)
		if err != nil {
			return false // who reads on hears of it again
		}
		switch start[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return false
}

// rpcBinding is the JSON-RPC binding (A2A 0.3 §3.2.1, 1.0 §9).
type rpcBinding struct{}

func (rpcBinding) read(_ *http.Request, _ string, body []byte) (*wire.Request, error) {
	return wire.Read(body)
}

func (rpcBinding) encode(message []byte) []byte { return message }

func (rpcBinding) reading(_ *wire.Request, resp *http.Response) reading {
	return newJSONReading(resp, wire.ReadResponse)
}

func (rpcBinding) rewriteCard(_ *wire.Request, body []byte, each func(binding, url string) (string, bool)) ([]byte, error) {
	return wire.RewriteCardResponse(body, each)
}

func (rpcBinding) rewritePush(_ *wire.Request, body []byte, each func(url string) string) ([]byte, error) {
	return wire.RewritePush(wire.JSONRPC, body, each)
}

// asked guesses by the headers: the method that would tell is in the body.
func (rpcBinding) asked(r *http.Request) asked {
	accept := r.Header.Get("Accept")
	return asked{
		version:   versionOf(r),
		streaming: strings.Contains(accept, typeStream) && !strings.Contains(accept, "json"),
	}
}

// rpcAnswer is a JSON-RPC response: with a result or an error.
type rpcAnswer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    []any  `json:"data,omitempty"`
}

func (b rpcBinding) fault(w http.ResponseWriter, q asked, f fault) error {
	return b.answer(w, q, f.rpcHTTP, rpcAnswer{Error: &rpcError{f.code, f.message, f.data(q.version)}})
}

func (b rpcBinding) task(w http.ResponseWriter, q asked, t failedTask) error {
	if q.version == wire.V10 {
		return b.answer(w, q, http.StatusOK, rpcAnswer{Result: wrapped{Task: t.json10()}})
	}
	answers := []rpcAnswer{{Result: t.json03()}}
	if q.streaming { // a 0.3 stream ends with a status update that says so
		answers = append(answers, rpcAnswer{Result: t.final03()})
	}
	return b.answer(w, q, http.StatusOK, answers...)
}

// answer writes JSON-RPC responses: one as a body, or each as an event of a
// stream. A streaming method gets its error as an event, too: a body in its
// place is read as an empty stream by some clients.
func (rpcBinding) answer(w http.ResponseWriter, q asked, status int, answers ...rpcAnswer) error {
	var out []byte
	for _, a := range answers {
		a.JSONRPC, a.ID = "2.0", rawID(q.id)
		body, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if q.streaming {
			body = sse.AppendEvent(nil, sse.Event{Data: body})
		}
		out = append(out, body...)
	}
	if q.streaming {
		answer(w, typeStream, status, out)
	} else {
		answer(w, typeJSON, status, out)
	}
	return nil
}

// rawID is an id as it may be echoed: one that is no UTF-8 would make the
// answer no JSON.
func rawID(id []byte) json.RawMessage {
	if id == nil || !utf8.Valid(id) {
		return json.RawMessage("null")
	}
	return id
}
