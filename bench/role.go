package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// roleFlag makes this program play one of the boxes instead of measuring:
// bench -role NAME URL. It prints its address and plays until its standard
// input ends, as it does when the parent dies.
const roleFlag = "-role"

const (
	roleAgent = "agent"
	roleBare  = "bare"
)

func play(ctx context.Context, role, to string, stdin io.Reader, stdout io.Writer) error {
	var h http.Handler
	switch role {
	case roleAgent:
		h = agent{pause: eventPause}
	case roleBare:
		u, err := url.Parse(to)
		if err != nil {
			return fmt.Errorf("reading the agent's URL: %w", err)
		}
		h = bare(u)
	default:
		return fmt.Errorf("there is no role %q", role)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("binding a port: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = srv.Close() }) // what it cuts off is of no use any more
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // any end of it is the parent's
		_ = srv.Close()
	}()
	if _, err := fmt.Fprintln(stdout, l.Addr()); err != nil {
		return fmt.Errorf("handing over the address: %w", err)
	}
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bare is the least that a Go proxy can do, and the sidecar's measure.
func bare(to *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if r.Out.ContentLength > 0 {
				r.Out.Body = knownBody{r.Out.Body}
			}
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256},
	}
}

// knownBody is a request body of known length. Having sent all of it, Go's
// transport reads once more, to see that nothing follows. By then an agent may
// have answered, the server closed the body, and the error of that read would
// cut off the answer: some streams in ten thousand.
type knownBody struct{ io.ReadCloser }

func (b knownBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		err = io.EOF // one that comes too early, the transport sees by the length
	}
	return n, err
}

const (
	// eventPause lies between two events of a stream, so that streams overlap
	// without saturating the machine: then the first event's time is that of
	// the path, not of a queue.
	eventPause = 5 * time.Millisecond

	streamEvents = 4
)

// agent answers as little of A2A 1.0 as the generator asks, and as cheaply: it
// shares the cores with what is measured. It repeats the ids that it saw, so
// that the generator sees what a proxy made of them.
type agent struct{ pause time.Duration }

func (a agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var buf bytes.Buffer
	buf.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := buf.Bytes()
	message, context := field(body, `"messageId":"`), field(body, `"contextId":"`)
	switch field(body, `"method":"`) {
	case methodSend:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"`+message+`","result":{"message":{"messageId":"r`+message+
			`","contextId":"`+context+`","role":"ROLE_AGENT","parts":[{"text":"`+answerText+`"}]}}}`) // a caller who left is told nothing
	case methodStream:
		a.stream(w, r, message, context, bytes.Contains(body, []byte(holdText)))
	default:
		http.Error(w, "no such method", http.StatusNotFound)
	}
}

const answerText = "All eleven parts are in."

// stream sends a task's life: it works, an artifact comes in chunks, it is done.
// One that is to hold only works, until the caller leaves.
func (a agent) stream(w http.ResponseWriter, r *http.Request, message, context string, hold bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	ids := `"taskId":"t` + message + `","contextId":"` + context + `",`
	for i := range streamEvents {
		var result string
		switch i {
		case 0:
			result = `"task":{"id":"t` + message + `","contextId":"` + context + `","status":{"state":"TASK_STATE_WORKING"}}`
		case streamEvents - 1:
			result = `"statusUpdate":{` + ids + `"status":{"state":"TASK_STATE_COMPLETED"}}`
		default:
			result = `"artifactUpdate":{` + ids + `"artifact":{"artifactId":"a1","parts":[{"text":"` + answerText + `"}]},"append":true}`
		}
		if i > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-a.after(hold):
			}
		}
		_, err := io.WriteString(w, `data: {"jsonrpc":"2.0","id":"`+message+`","result":{`+result+"}}\n\n")
		if err != nil || flush() != nil {
			return // the caller left
		}
	}
}

// after ends the pause between two events, never if they are to hold.
func (a agent) after(hold bool) <-chan time.Time {
	if hold {
		return nil
	}
	return time.After(a.pause)
}

// field returns the string value behind the first occurrence of key in body.
// The generator's messages hold each key once, and no escapes.
func field(body []byte, key string) string {
	_, after, ok := bytes.Cut(body, []byte(key))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(after, []byte{'"'})
	return string(value)
}
