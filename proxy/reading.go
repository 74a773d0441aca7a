package proxy

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// newJSONReading follows an answer of the bindings that speak JSON: a body, or
// a stream of events. read makes sense of a body and of the data of an event.
func newJSONReading(resp *http.Response, read func([]byte) (wire.Update, error)) reading {
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == typeStream {
		return newEventReading(read)
	}
	r := &bodyReading{read: read}
	if n := resp.ContentLength; n > 0 && n <= maxSeen {
		r.seen.Grow(int(n))
	}
	return r
}

// bodyReading follows an answer that is one JSON value.
type bodyReading struct {
	read  func([]byte) (wire.Update, error)
	seen  bytes.Buffer
	depth nesting // of what was seen
	over  bool    // it was longer than maxSeen
}

func (r *bodyReading) take(p []byte, _ watcher) (whole bool) {
	whole = r.depth.ends(p)
	switch {
	case r.over:
	case r.seen.Len()+len(p) > maxSeen:
		r.over = true
		r.seen = bytes.Buffer{}
	default:
		r.seen.Write(p)
	}
	return whole
}

func (r *bodyReading) end(w watcher) sessions.Outcome {
	if r.over {
		return sessions.Unread
	}
	if r.seen.Len() == 0 {
		return sessions.Answered
	}
	u, err := r.read(r.seen.Bytes())
	if err != nil {
		return sessions.Malformed
	}
	w.Saw(u)
	return sessions.Answered
}

// eventReading follows a stream of server-sent events.
type eventReading struct {
	events *sse.Scanner
	w      watcher
	bad    bool // something in it could not be read
}

func newEventReading(read func([]byte) (wire.Update, error)) *eventReading {
	r := &eventReading{}
	r.events = sse.NewScanner(maxSeen, func(e sse.Event) {
		if len(e.Data) == 0 {
			return
		}
		u, err := read(e.Data)
		if err != nil {
			r.bad = true
			return
		}
		r.w.Saw(u)
	})
	return r
}

func (r *eventReading) take(p []byte, w watcher) (whole bool) {
	r.w = w
	_, _ = r.events.Write(p) // never fails
	w.Flush()
	return false
}

func (r *eventReading) end(watcher) sessions.Outcome {
	switch cut := r.events.Close(); {
	case cut || r.bad:
		return sessions.Malformed
	case r.events.Oversized() > 0:
		return sessions.Unread
	default:
		return sessions.Answered
	}
}

// grpcReading follows the messages of a gRPC answer, and the status after them.
type grpcReading struct {
	req      *wire.Request
	resp     *http.Response // its trailers are there when its body has ended
	messages *grpcframe.Scanner
	w        watcher
	bad      bool // a message was broken
	unread   bool // a message was not read: it was too large, or packed in an unknown way
}

func newGRPCReading(req *wire.Request, resp *http.Response) *grpcReading {
	r := &grpcReading{req: req, resp: resp}
	r.messages = grpcframe.NewScanner(maxSeen, r.message)
	return r
}

func (r *grpcReading) message(packed bool, message []byte) {
	u, err := r.read(packed, message)
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, errUnreadable), errors.Is(err, wire.ErrTooLong):
		r.unread = true
	case err != nil:
		r.bad = true
	default:
		r.w.Saw(u)
	}
}

func (r *grpcReading) read(packed bool, message []byte) (wire.Update, error) {
	if packed {
		var err error
		if message, err = unpackAll(r.resp.Header.Get(grpcEncoding), message, maxSeen); err != nil {
			return wire.Update{}, err
		}
	}
	return wire.ReadProtoResponse(r.req.Version, r.req.Op, message)
}

func (r *grpcReading) take(p []byte, w watcher) (whole bool) {
	r.w = w
	_, _ = r.messages.Write(p) // never fails
	w.Flush()
	return false
}

func (r *grpcReading) end(w watcher) sessions.Outcome {
	truncated := r.messages.Close()
	state, known := r.status()
	switch {
	case known && state.Kind == wire.UpdateError:
		w.Saw(state)
		return sessions.Answered
	case !known || truncated || r.bad: // a gRPC answer without a status was cut
		return sessions.Malformed
	case r.unread || r.messages.Oversized() > 0:
		return sessions.Unread
	default:
		return sessions.Answered
	}
}

// status reads how the call ended, from the trailers or, where there is nothing
// else, from the headers. It returns an UpdateError for an error.
func (r *grpcReading) status() (u wire.Update, known bool) {
	from := r.resp.Trailer
	if from.Get(grpcStatus) == "" {
		from = r.resp.Header
	}
	n, err := strconv.Atoi(from.Get(grpcStatus))
	if err != nil {
		return wire.Update{}, false
	}
	if n == int(code.Code_OK) {
		return wire.Update{}, true
	}
	return wire.Update{Kind: wire.UpdateError, ErrorCode: n, ErrorMessage: percentDecode(from.Get(grpcMessage))}, true
}

// nesting finds the end of a JSON object that comes in pieces.
type nesting struct {
	open    int // braces and brackets
	quoted  bool
	escaped bool
}

// ends reports whether the object ends in the next piece. What is no JSON ends
// at any time, or never.
func (n *nesting) ends(piece []byte) bool {
	for _, c := range piece {
		switch {
		case n.escaped:
			n.escaped = false
		case n.quoted:
			n.quoted, n.escaped = c != '"', c == '\\'
		case c == '"':
			n.quoted = true
		case c == '{' || c == '[':
			n.open++
		case c == '}' || c == ']':
			if n.open--; n.open <= 0 {
				return true
			}
		}
	}
	return false
}
