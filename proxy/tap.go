package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// maxSeen bounds what a tap holds of one answer, or of one event of a stream.
// What is larger goes by unread.
const maxSeen = 16 << 20

// watcher is told what a tap reads.
type watcher interface {
	Saw(wire.Update)
	Flush()
	End(sessions.Outcome)
}

// reading makes sense of the bytes of an answer, whatever its binding.
type reading interface {
	// take is shown the next bytes, unpacked, and tells w what they say. It
	// reports whether the caller has all that it waits for: clients decode no
	// further, and some hang up there. It keeps no byte of p.
	take(p []byte, w watcher) (whole bool)
	// end is told that the answer has ended, as it should or, if that was known,
	// earlier; it returns what is to be thought of it. It may tell w more.
	end(w watcher) sessions.Outcome
}

// tap is a response body that reads along. The bytes go by unchanged and
// undelayed; what they say is told before the reader gets the last of them, so
// that a caller who acts on an answer finds its end already taken note of.
//
// Read and Close are called by one goroutine, as the transport demands.
type tap struct {
	body    io.ReadCloser
	ctx     context.Context // of the caller's request: tells who broke off
	watcher watcher
	reading reading
	packed  *unpacker // between the bytes and their reading; nil if they come as they are
	fails   bool      // the answer is an HTTP error, or sends the call elsewhere
	unread  bool      // it is packed in a way that cannot be read
	whole   bool
	ended   bool
}

// newTap puts a tap on resp.
func newTap(ctx context.Context, resp *http.Response, r reading, w watcher) *tap {
	t := &tap{
		body: resp.Body, ctx: ctx, watcher: w, reading: r,
		fails: resp.StatusCode >= http.StatusMultipleChoices,
	}
	if encoding := contentEncoding(resp.Header); encoding != "" {
		open, ok := unpackers[encoding]
		if t.unread = !ok; ok {
			t.packed = newUnpacker(open, t.take)
		}
	}
	return t
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if t.ended {
		return n, err
	}
	if n > 0 && !t.unread {
		if t.packed != nil {
			t.packed.write(p[:n])
		} else {
			t.take(p[:n])
		}
	}
	switch {
	case errors.Is(err, io.EOF), t.whole:
		t.end()
	case err != nil:
		t.breakOff()
	}
	return n, err
}

func (t *tap) take(p []byte) {
	t.whole = t.reading.take(p, t.watcher) || t.whole
}

// end tells that the whole answer came.
func (t *tap) end() {
	var broken error
	if t.packed != nil {
		broken = t.packed.close(t.whole)
	}
	outcome := t.reading.end(t.watcher)
	switch {
	case t.fails:
		outcome = sessions.HTTPError
	case t.unread, errors.Is(broken, errUnreadable):
		outcome = sessions.Unread
	case broken != nil && outcome == sessions.Answered:
		outcome = sessions.Malformed
	}
	t.done(outcome)
}

func (t *tap) breakOff() {
	if t.ctx.Err() != nil {
		t.done(sessions.CallerGone)
		return
	}
	t.done(sessions.BrokenOff)
}

// done ends the reading, if it has not ended.
func (t *tap) done(o sessions.Outcome) {
	if t.ended {
		return
	}
	t.ended = true
	if t.packed != nil {
		_ = t.packed.close(true) // with enough, it is never broken
	}
	t.watcher.End(o)
}

// Close ends the answer where it is. Whoever closes before the end has lost
// interest, or its own caller.
func (t *tap) Close() error {
	t.done(sessions.CallerGone)
	return t.body.Close()
}
