package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The caller is told where its call ran, and by nobody but the sidecar.
func TestResponseHeaders(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sidecar-Branch", "forged")
		w.Header().Set("X-Sidecar-Depth", "9")
		w.Header().Set("X-Agent", "a")
		w.Header().Add("X-Agent", "b")
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "Streaming") {
			streams("data: "+completed10+"\n\n")(w, r)
			return
		}
		says(completed10)(w, r)
	})
	a := agentAt("worker", agent.URL)
	a.Session.Isolate = true
	w := newWorld(t, a)
	for i, body := range []string{send10("m1", ""), stream10("m2", "")} {
		root := "top" + itoa(i)
		got := w.post(t, body, "x-kagent-root-context-id", root)
		s := w.session(t, root)
		want := map[string][]string{
			"x-sidecar-session-id": {s.ID}, "x-sidecar-context-id": {s.ContextID}, "x-sidecar-root-context-id": {root},
			"x-sidecar-branch": {"coordinator.worker@1"}, "x-agent": {"a", "b"},
		}
		if diff := cmp.Diff(want, values(got.header, "x-")); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if i == 0 { // of the first call's task
			got := w.post(t, `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`)
			if diff := cmp.Diff(want, values(got.header, "x-")); diff != "" {
				t.Errorf("headers of a call about its task (-want +got):\n%s", diff)
			}
		}
	}
	got := w.post(t, `{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`)
	if got.header.Get("X-Sidecar-Session-Id") != "" {
		t.Errorf("headers of a call that is not recorded: %v", got.header)
	}
}

func TestUnaryAnswersPassAsTheyAre(t *testing.T) {
	t.Parallel()
	odd := " {\"id\" : 1.0, \"jsonrpc\":\"2.0\",\r\n\"result\":{\"message\":{\"role\":\"ROLE_AGENT\",\"x\":1e400,\"parts\":[{\"text\":\"\\u00fc\\/\"}],\"messageId\":\"r\"}}}\n"
	for _, tt := range []struct {
		name    string
		status  int
		header  []string
		body    string
		state   lineage.State
		reason  string
		flushed bool // in pieces of unknown number
	}{
		{"JSON", 200, []string{"Content-Type", "application/json"}, odd, lineage.Completed, "", false},
		{"as 0.3 Go agents call it", 200, []string{"Content-Type", "text/plain; charset=utf-8"}, message03 + "\n", lineage.Completed, "", false},
		{"chunked", 200, []string{"Content-Type", "application/json"}, odd, lineage.Completed, "", true},
		{"large", 200, []string{"Content-Type", "application/json"}, strings.Replace(message10, "hello", strings.Repeat("x", 10<<20), 1), lineage.Completed, "", false},
		{"larger than is read", 200, []string{"Content-Type", "application/json"}, strings.Replace(message10, "hello", strings.Repeat("x", 17<<20), 1), lineage.Failed, "lost", true},
		{"JSON-RPC error", 200, []string{"Content-Type", "application/json"}, `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`, lineage.Failed, "agent_error", false},
		{"HTTP error", 503, []string{"Content-Type", "text/html", "Retry-After", "7"}, "<h1>busy</h1>", lineage.Failed, "agent_error", false},
		{"HTTP error with a JSON-RPC error", 400, []string{"Content-Type", "application/json"}, `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`, lineage.Failed, "agent_error", false},
		{"login wanted", 401, []string{"Www-Authenticate", "Bearer"}, "", lineage.Failed, "agent_error", false},
		{"redirect", 307, []string{"Location", "http://elsewhere/x"}, "", lineage.Failed, "agent_error", false},
		{"accepted", 202, nil, "", lineage.Failed, "malformed_response", false},
		{"not JSON", 200, []string{"Content-Type", "text/html"}, "<h1>hello</h1>", lineage.Failed, "malformed_response", false},
		{"gzip", 200, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, zipped(message10), lineage.Completed, "", false},
		{"gzip in pieces", 200, []string{"Content-Type", "application/json", "Content-Encoding", "GZIP"}, zipped(message10), lineage.Completed, "", true},
		{"gzip that is none", 200, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, message10, lineage.Failed, "lost", false},
		{"gzip that ends early", 200, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, zipped(message10)[:40], lineage.Failed, "malformed_response", false},
		{"packed as nobody asked for", 200, []string{"Content-Type", "application/json", "Content-Encoding", "br"}, "\x0b\x02\x80{}\x03", lineage.Failed, "lost", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", "then")
				for i := 0; i < len(tt.header); i += 2 {
					w.Header().Set(tt.header[i], tt.header[i+1])
				}
				w.WriteHeader(tt.status)
				half := len(tt.body) / 2
				_, _ = io.WriteString(w, tt.body[:half])
				if tt.flushed {
					_ = http.NewResponseController(w).Flush()
				}
				_, _ = io.WriteString(w, tt.body[half:])
			})
			w := newWorld(t, isolated("worker", agent.URL))
			got := w.post(t, send10("m1", ""), "x-kagent-root-context-id", "top")
			if got.status != tt.status || got.body != tt.body {
				t.Errorf("answer = %d, %d bytes %.100q; want %d, %d bytes %.100q", got.status, len(got.body), got.body, tt.status, len(tt.body), tt.body)
			}
			for i := 0; i < len(tt.header); i += 2 {
				if got := got.header.Get(tt.header[i]); got != tt.header[i+1] {
					t.Errorf("header %s = %q, want %q", tt.header[i], got, tt.header[i+1])
				}
			}
			if got := got.header.Get("Date"); got != "then" {
				t.Errorf("header Date = %q, want the agent's", got)
			}
			w.state(t, "top", tt.state, tt.reason)
		})
	}
}

// A packed stream passes as it is, and is read as it goes: the end of the task is
// recorded while the stream is still open.
func TestPackedStreams(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	sent := make(chan []byte, 1)
	agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		var packed bytes.Buffer
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(io.MultiWriter(w, &packed))
		for _, e := range []string{working10, completed10} {
			_, _ = io.WriteString(zip, "data: "+e+"\n\n")
			_ = zip.Flush()
			_ = http.NewResponseController(w).Flush()
		}
		sent <- packed.Bytes()
		<-release
	})
	w := newWorld(t, isolated("worker", agent.URL))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/agents/worker", strings.NewReader(stream10("m1", "")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"}, "X-Kagent-Root-Context-Id": {"top"}}
	resp, err := w.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	w.state(t, "top", lineage.Completed, "")
	want := <-sent
	got := make([]byte, len(want))
	if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %x, %v; want the agent's own bytes %x", got, err, want)
	}
}

// events is a stream with everything in it that a parser would lose.
const events = ": hello\n\nid: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"statusUpdate\":{\"taskId\":\"t1\",\"contextId\":\"c1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n" +
	"retry: 100\r\n: ping\r\nunknown: field\r\ndata:" + completed10 + "\r\n\r\n" +
	"data: {\"jsonrpc\":\ndata: \"2.0\",\"id\":1,\"result\":{}}\n\n:bye\n\n"

// Streams pass byte for byte, in whatever pieces they come.
func TestStreamsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 7, 64, 4096} {
		t.Run(itoa(size), func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for rest := events; rest != ""; {
					n := min(size, len(rest))
					_, _ = io.WriteString(w, rest[:n])
					_ = http.NewResponseController(w).Flush()
					rest = rest[n:]
				}
			})
			w := newWorld(t, isolated("worker", agent.URL))
			got := w.post(t, stream10("m1", ""), "x-kagent-root-context-id", "top")
			if diff := cmp.Diff(events, got.body); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
			if got := got.header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
				t.Errorf("content type = %q", got)
			}
			w.state(t, "top", lineage.Completed, "")
		})
	}
}

// An event reaches the caller before the agent says another word.
func TestStreamsAreNotHeldUp(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: {\"event\":%d}\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-heard:
			case <-r.Context().Done():
				return
			}
		}
	})
	w := newWorld(t, agentAt("worker", agent.URL))
	resp := w.open(t, stream10("m1", ""))
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	for i := range 5 {
		line, err := in.ReadString('\n')
		if want := fmt.Sprintf("data: {\"event\":%d}\n", i); err != nil || line != want {
			t.Fatalf("line = %q, %v; want %q", line, err, want)
		}
		_, _ = in.ReadString('\n')
		heard <- struct{}{}
	}
}

// What a stream has said is in the record while it goes on.
func TestStreamsAreRecordedAsTheyGo(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		streams("data: "+working10+"\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	w := newWorld(t, isolated("worker", agent.URL))
	resp := w.open(t, stream10("m1", ""), "x-kagent-root-context-id", "top")
	defer func() { _ = resp.Body.Close() }()
	within(t, "the run has its task", func() bool {
		s := w.session(t, "top")
		return len(s.Runs) == 1 && s.Runs[0].TaskID == "t1" && s.State == lineage.Active
	})
}

// open sends a JSON-RPC body to worker and returns the answer unread.
func (w *world) open(t *testing.T, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/agents/worker", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestLargeEventsPass(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10 << 20, 17 << 20} { // the second is larger than what is read
		stream := "data: " + strings.Replace(message10, "hello", strings.Repeat("x", size), 1) + "\n\ndata: " + completed10 + "\n\n"
		agent := newFake(t, streams(stream))
		w := newWorld(t, isolated("worker", agent.URL))
		if got := w.post(t, stream10("m1", ""), "x-kagent-root-context-id", "top"); got.body != stream {
			t.Errorf("stream of %d bytes came as %d bytes", len(stream), len(got.body))
		}
		w.state(t, "top", lineage.Completed, "")
	}
}

func TestTrailersPass(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Said")
		says(message10)(w, r)
		w.Header().Set("X-Said", "before")
		w.Header().Set(http.TrailerPrefix+"X-Unsaid", "after")
	})
	w := newWorld(t, agentAt("worker", agent.URL))
	got := w.post(t, send10("m1", ""))
	if diff := cmp.Diff(http.Header{"X-Said": {"before"}, "X-Unsaid": {"after"}}, got.trailer); diff != "" || got.body != message10 {
		t.Errorf("answer %s, trailers (-want +got):\n%s", got.body, diff)
	}
}

// An answer that breaks off breaks off for the caller, too. The task that it told
// of is at work until somebody hears of its end (see TestBrokenOffIsAskedFor).
func TestAgentBreaksOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, contentType, said string
		length                  bool
		state                   lineage.State
		reason                  string
	}{
		{"in a body of known length", "application/json", `{"jsonrpc":"2.0","id":1,"res`, true, lineage.Failed, "lost"},
		{"in a body of unknown length", "application/json", `{"jsonrpc":"2.0","id":1,"res`, false, lineage.Failed, "lost"},
		{"in a stream", "text/event-stream", "data: " + working10 + "\n\ndata: {", false, lineage.Active, ""},
		{"after the last word of a stream", "text/event-stream", "data: " + completed10 + "\n\n", false, lineage.Completed, ""},
		{"after the last word of a body", "application/json", completed10, true, lineage.Completed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				if tt.length {
					w.Header().Set("Content-Length", "1000")
				}
				_, _ = io.WriteString(w, tt.said)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			w := newWorld(t, isolated("worker", agent.URL))
			got, err := w.try(t, http.MethodPost, "/agents/worker", send10("m1", ""), "x-kagent-root-context-id", "top")
			// Of a body of known length not all that came need have been passed on.
			if err == nil || !strings.HasPrefix(tt.said, got.body) || !tt.length && got.body != tt.said {
				t.Errorf("answer = %q, %v; want %q and that it broke off", got.body, err, tt.said)
			}
			within(t, "no call holds the run", func() bool { return w.record.Open() == 0 })
			w.state(t, "top", tt.state, tt.reason)
		})
	}
}

// An event too large to be read passes, and is no evidence of success.
func TestStreamOfAnEventTooLargeToRead(t *testing.T) {
	t.Parallel()
	body := "data: " + strings.Replace(message10, "hello", strings.Repeat("x", 17<<20), 1) + "\n\n"
	agent := newFake(t, streams(body))
	w := newWorld(t, isolated("worker", agent.URL))
	if got := w.post(t, stream10("m1", ""), "x-kagent-root-context-id", "top"); got.body != body {
		t.Errorf("answer has %d bytes, want the agent's %d", len(got.body), len(body))
	}
	w.state(t, "top", lineage.Failed, "lost")
}

// An answer without a Content-Type stays so, and a redirection within the agent
// leads through the sidecar.
func TestAnswerHeadsStay(t *testing.T) {
	t.Parallel()
	var agent *fake
	agent = newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		switch to := r.Header.Get("X-To"); to {
		case "":
			_, _ = io.WriteString(w, message10)
		default:
			w.Header().Set("Location", strings.ReplaceAll(to, "AGENT", agent.URL))
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	a := agentAt("worker", agent.URL+"/base")
	w := newWorld(t, a)
	got := w.post(t, send10("m0", ""))
	if ct, ok := got.header["Content-Type"]; ok || got.body != message10 {
		t.Errorf("answer = %q with Content-Type %q, want none", got.body, ct)
	}
	for to, want := range map[string]string{
		"AGENT/base/rpc/?a=1#f":     w.URL + "/agents/worker/rpc/?a=1#f",
		"AGENT/other":               w.URL + "/agents/worker/~/other",
		"/base/rpc":                 w.URL + "/agents/worker/rpc",
		"rest":                      w.URL + "/agents/worker/rest",
		"https://elsewhere.example": "https://elsewhere.example",
	} {
		got := w.do(t, http.MethodPost, "/agents/worker/x", send10("m"+to, ""), "Content-Type", "application/json", "X-To", to)
		if location := got.header.Get("Location"); got.status != http.StatusTemporaryRedirect || location != want {
			t.Errorf("redirected to %s: %d, Location %s; want %s", to, got.status, location, want)
		}
	}
}

// Headers of the sidecar's own that an agent makes up reach nobody, whatever the
// call was.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sidecar-Session-Id", "forged")
		w.Header().Set("X-Sidecar-Card", "stale")
		says(`{}`)(w, r)
	})
	w := newWorld(t, agentAt("worker", agent.URL))
	for _, path := range []string{"/tasks/unknown", "/tasks", "/other", "/.well-known/agent-card.json"} {
		got := w.do(t, http.MethodGet, "/agents/worker"+path, "")
		if diff := cmp.Diff(map[string][]string{}, values(got.header, "x-sidecar-")); diff != "" {
			t.Errorf("GET %s: headers (-want +got):\n%s", path, diff)
		}
	}
}
