package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// maxSeen bounds what a tap holds of one answer or of one event. What is
// larger goes by unread.
const maxSeen = 16 << 20

// watcher is told what a tap reads.
type watcher interface {
	Saw(wire.Update)
	Flush()
	End(sessions.Outcome)
}

// tap is a response body that reads along. The bytes go by unchanged and
// undelayed; what they say is told before the reader gets the last of them, so
// that a caller who acts on an answer finds its end already taken note of. For
// a unary answer that is the end of its JSON: clients decode no further, and
// some hang up there.
//
// Read and Close are called by one goroutine, as the transport demands.
type tap struct {
	body  io.ReadCloser
	ctx   context.Context // of the caller's request: tells who broke off
	run   watcher
	fails bool // the answer is an HTTP error, or sends the call elsewhere
	ended bool

	events *sse.Scanner // for a stream, else nil
	seen   bytes.Buffer // for a unary answer
	depth  nesting      // of what was seen
	over   bool         // it was longer than maxSeen
	bad    bool         // something in it could not be read
}

// newTap puts a tap on resp.
func newTap(ctx context.Context, resp *http.Response, stream bool, run watcher) *tap {
	t := &tap{body: resp.Body, ctx: ctx, run: run, fails: resp.StatusCode >= http.StatusMultipleChoices}
	if stream {
		t.events = sse.NewScanner(maxSeen, t.event)
	} else if n := resp.ContentLength; n > 0 && n <= maxSeen {
		t.seen.Grow(int(n))
	}
	return t
}

func (t *tap) event(e sse.Event) {
	if len(e.Data) == 0 {
		return
	}
	u, err := wire.ReadResponse(e.Data)
	if err != nil {
		t.bad = true
		return
	}
	t.run.Saw(u)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if t.ended {
		return n, err
	}
	if n > 0 {
		t.take(p[:n])
	}
	switch {
	case errors.Is(err, io.EOF):
		t.end()
	case err != nil:
		t.breakOff()
	}
	return n, err
}

func (t *tap) take(p []byte) {
	if t.events != nil {
		_, _ = t.events.Write(p) // never fails
		t.run.Flush()
		return
	}
	whole := t.depth.ends(p)
	switch {
	case t.seen.Len()+len(p) > maxSeen:
		t.over = true
		t.seen.Reset()
	case !t.over:
		t.seen.Write(p)
	}
	if whole {
		t.end()
	}
}

// end tells that the whole answer came.
func (t *tap) end() {
	t.ended = true
	outcome := sessions.Answered
	if t.fails {
		outcome = sessions.HTTPError
	}
	switch {
	case t.events != nil:
		switch cut := t.events.Close(); {
		case cut || t.bad:
			outcome = sessions.Malformed
		case t.events.Oversized() > 0:
			outcome = sessions.Unread
		}
	case t.over:
		outcome = sessions.Unread
	case t.seen.Len() == 0:
	default:
		u, err := wire.ReadResponse(t.seen.Bytes())
		switch {
		case err == nil:
			t.run.Saw(u)
		case !t.fails:
			outcome = sessions.Malformed
		}
	}
	t.run.End(outcome)
}

func (t *tap) breakOff() {
	t.ended = true
	if t.ctx.Err() != nil {
		t.run.End(sessions.CallerGone)
		return
	}
	t.run.End(sessions.BrokenOff)
}

// Close ends the answer where it is. Whoever closes before the end has lost
// interest, or its own caller.
func (t *tap) Close() error {
	if !t.ended {
		t.ended = true
		t.run.End(sessions.CallerGone)
	}
	return t.body.Close()
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
