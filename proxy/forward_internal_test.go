package proxy

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// A stream that is open holds nothing of what it was asked with.
func TestRequestIsLetGo(t *testing.T) {
	t.Parallel()
	freed := make(chan struct{})
	x, sent := askedWithMuch(t, freed)
	x.letGo(sent)
	for range 1000 { // cleanups run some time after a collection
		runtime.GC()
		select {
		case <-freed:
			if q := askedOf(x.request); string(q.id) != "7" || !q.streaming || q.version != wire.V10 {
				t.Errorf("of the request is left %+v, want what an answer must know", q)
			}
			runtime.KeepAlive(x)
			runtime.KeepAlive(sent)
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the request is still held")
	runtime.KeepAlive(x)
	runtime.KeepAlive(sent)
}

// askedWithMuch is an exchange whose large request has been sent. Freed is
// closed when nobody holds that any more.
func askedWithMuch(t *testing.T, freed chan struct{}) (*exchange, *http.Request) {
	t.Helper()
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":{"message":{"messageId":"m1","parts":[{"text":"` +
		strings.Repeat("x", 1<<20) + `"}]}}}`)
	runtime.AddCleanup(&body[0], func(c chan struct{}) { close(c) }, freed)
	request, err := wire.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	setBody(sent, body, func() bool { return true })
	if _, err := io.Copy(io.Discard, sent.Body); err != nil {
		t.Fatal(err)
	}
	if err := sent.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return &exchange{request: request, body: body}, sent
}
