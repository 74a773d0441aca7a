package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

var errTooLarge = errors.New("body too large")

// grownFor is how much room a body gets at once for the length that its header
// claims. The rest grows with what really comes: claims cost nothing.
const grownFor = 64 << 10

// readBody reads a request body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, grownFor)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, errTooLarge
	}
	return buf.Bytes(), err
}

// Bounds of drain: a client that goes on longer has itself to blame.
const (
	drainTimes = 4 // the limit
	drainFor   = 5 * time.Second
)

// drain reads on in a body that is too large. Many clients look for an answer
// only when they have sent all of theirs, and would find the connection cut.
func drain(w http.ResponseWriter, r *http.Request, limit int64) {
	if r.Header.Get("Expect") != "" || r.ContentLength > drainTimes*limit {
		return // it waits for a word before it sends, or is beyond all patience
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(drainFor)) != nil {
		return // there would be no end to it
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainTimes*limit) // what comes of it does not matter
	_ = rc.SetReadDeadline(time.Time{})
}

// setBody gives r a body that was read. It can be sent again if the connection
// turns out dead before any byte of it left, and only then: Go's transport takes
// a POST with an Idempotency-Key for one that may be sent twice, which no send
// is. mayRepeat is asked, too, before it is.
func setBody(r *http.Request, body []byte, mayRepeat func() bool) {
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	r.Header.Del("Expect") // was for us, who have read the body
	r.Body = newHeldBody(body)
	r.GetBody = nil
	_, twice := r.Header["Idempotency-Key"]
	if _, x := r.Header["X-Idempotency-Key"]; twice || x {
		return
	}
	r.GetBody = func() (io.ReadCloser, error) {
		if !mayRepeat() {
			return nil, errNoRepeat
		}
		return newHeldBody(body), nil
	}
}

var errNoRepeat = errors.New("the call may have reached the agent: it is not sent again")

// heldBody is a body in memory, which it lets go of when it is closed: a request
// is kept for as long as its answer streams.
type heldBody struct{ *bytes.Reader }

func newHeldBody(body []byte) io.ReadCloser { return heldBody{bytes.NewReader(body)} }

func (b heldBody) Close() error {
	b.Reset(nil)
	return nil
}

// knownBody is a request body of known length that passes unread. Having sent
// all of it, Go's transport reads once more, to see that nothing follows. By
// then the agent may have answered and the server closed the body, and the
// error of that read would cut off the answer.
type knownBody struct{ io.ReadCloser }

func (b knownBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		err = io.EOF // one that comes too early, the transport sees by the length
	}
	return n, err
}
