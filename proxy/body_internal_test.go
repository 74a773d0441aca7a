package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type closedBody struct{ err error }

func (b closedBody) Read([]byte) (int, error) { return 0, b.err }
func (closedBody) Close() error               { return nil }

// What the transport reads once the server has closed a body that was sent
// whole is its end; any other error stays one.
func TestKnownBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for read, want := range map[error]error{http.ErrBodyReadAfterClose: io.EOF, io.EOF: io.EOF, broken: broken} {
		if _, got := (knownBody{closedBody{read}}).Read(make([]byte, 1)); !errors.Is(got, want) {
			t.Errorf("Read() of a body that says %v = %v, want %v", read, got, want)
		}
	}
}

// Room is made for what comes, not for what the header claims.
func TestReadBodyTrustsNoLength(t *testing.T) {
	t.Parallel()
	const limit = 10 << 20
	for _, size := range []int{2, grownFor, grownFor + 1, 1 << 20} {
		sent := strings.Repeat("x", size)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(sent))
		r.ContentLength = limit
		got, err := readBody(httptest.NewRecorder(), r, limit)
		if err != nil || string(got) != sent {
			t.Errorf("readBody(%d bytes) = %d bytes, %v, want them", size, len(got), err)
		}
		if most := 4 * max(size, grownFor); cap(got) > most {
			t.Errorf("readBody(%d bytes that claim to be %d) takes %d, want at most %d", size, limit, cap(got), most)
		}
	}
}
