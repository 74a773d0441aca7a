package proxy

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

// endless answers every request with a body without end.
type endless struct{ read int }

func (e *endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(e)}, nil
}

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	return len(b), nil
}

// An agent cannot fill the sidecar's memory by its answer to the sidecar's own call.
func TestOwnCallsReadNoMoreThanTheTap(t *testing.T) {
	t.Parallel()
	agent := &endless{}
	resp, err := bounded{agent}.RoundTrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing is behind it
	n, err := io.Copy(io.Discard, resp.Body)
	var tooLarge *http.MaxBytesError
	if !errors.As(err, &tooLarge) || n != maxSeen {
		t.Errorf("read %d bytes, %v, want %d and then an error", n, err, maxSeen)
	}
}
