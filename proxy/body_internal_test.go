package proxy

import (
	"errors"
	"io"
	"net/http"
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
