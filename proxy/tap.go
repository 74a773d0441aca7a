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

// watcher is told what a tap reads. *sessions.Run is one.
type watcher interface {
	Saw(wire.Update)
	Flush()
	End(sessions.Outcome)
}

// tap is a response body that reads along. The bytes go by unchanged and
// undelayed; what they say is told before the reader gets the last of them, so
// that a caller who acts on an answer finds its end already taken note of.
//
// Read and Close are called by one goroutine, as the transport demands.
type tap struct {
	body  io.ReadCloser
	ctx   context.Context // of the caller's request: tells who broke off
	run   watcher
	left  int64 // bytes still to come; -1: not known
	fails bool  // the answer is an HTTP error
	ended bool

	events *sse.Scanner // for a stream, else nil
	seen   bytes.Buffer // for a unary answer
	over   bool         // it was longer than maxSeen
	bad    bool         // something in it could not be read
}

// newTap puts a tap on resp.
func newTap(ctx context.Context, resp *http.Response, stream bool, run watcher) *tap {
	t := &tap{body: resp.Body, ctx: ctx, run: run, left: resp.ContentLength, fails: resp.StatusCode >= http.StatusBadRequest}
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
	case t.left == 0:
		t.end() // the last bytes are in p: their reader need not ask again
	}
	return n, err
}

func (t *tap) take(p []byte) {
	if t.left > 0 {
		t.left -= int64(len(p))
	}
	switch {
	case t.events != nil:
		_, _ = t.events.Write(p) // never fails
		t.run.Flush()
	case t.seen.Len()+len(p) > maxSeen:
		t.over = true
		t.seen.Reset()
	case !t.over:
		t.seen.Write(p)
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
		if cut := t.events.Close(); cut || t.bad {
			outcome = sessions.Malformed
		}
	case t.over || t.seen.Len() == 0:
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
