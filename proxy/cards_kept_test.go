package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// mortal is an agent that can be told to fail in a given way; 0: not at all.
type mortal struct {
	*fake
	fails atomic.Int32 // HTTP status; -1: breaks off; -2: breaks off within the body
}

func newMortal(t *testing.T, answer http.HandlerFunc) *mortal {
	t.Helper()
	m := &mortal{}
	m.fake = newFake(t, func(w http.ResponseWriter, r *http.Request) {
		switch status := m.fails.Load(); status {
		case 0:
			answer(w, r)
		case -2:
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case -1:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(int(status))
		}
	})
	return m
}

// The last good card of an agent outlives it, marked as such.
func TestCardsOfAgentsThatAreDown(t *testing.T) {
	t.Parallel()
	agent := newMortal(t, cardAt(newPath, `{"url":"http://agent/rpc","signatures":[]}`,
		"Cache-Control", "max-age=3600", "Vary", "A2A-Version", "Age", "7", "ETag", `"agent's"`))
	w := newWorld(t, agentAt("worker", agent.URL))
	const path = "/agents/worker" + newPath
	if got := w.do(t, http.MethodHead, path, "", "A2A-Version", "1.0"); got.status != http.StatusOK || got.header.Get("X-Sidecar-Card") != "" {
		t.Fatalf("card = %d, %v; want 200 without a mark", got.status, got.header)
	}
	want := w.do(t, http.MethodGet, path, "")
	for _, status := range []int32{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, -1, -2} {
		agent.fails.Store(status)
		for _, asked := range []string{newPath, oldPath} {
			got := w.do(t, http.MethodGet, "/agents/worker"+asked, "")
			if got.status != http.StatusOK || got.body != want.body || got.header.Get("ETag") != want.header.Get("ETag") {
				t.Fatalf("card at %s while the agent fails by %d = %d %s, want the last one", asked, status, got.status, got.body)
			}
			for name, value := range map[string]string{
				"Warning": `110 - "Response is Stale"`, "X-Sidecar-Card": "stale", "Age": "7", "Cache-Control": "no-cache", "Vary": "A2A-Version",
			} {
				if got.header.Get(name) != value {
					t.Errorf("header %s while the agent fails by %d = %q, want %q", name, status, got.header.Get(name), value)
				}
			}
		}
		if got := w.do(t, http.MethodGet, path, "", "If-None-Match", want.header.Get("ETag")); got.status != http.StatusNotModified || got.header.Get("X-Sidecar-Card") != "stale" {
			t.Errorf("card that is known = %d, %v; want 304 with a mark", got.status, got.header)
		}
		if got := w.do(t, http.MethodHead, path, "", "A2A-Version", "1.0"); got.status != http.StatusOK || got.header.Get("Content-Length") != itoa(len(want.body)) {
			t.Errorf("HEAD while the agent fails by %d = %d, %v; want 200", status, got.status, got.header)
		}
	}
	got := raw(t, w.Listener.Addr().String(), "GET "+path+" HTTP/1.1\nHost: side.example\nConnection: close", "")
	if card := `{"url":"http://side.example/agents/worker/rpc"}`; got.body != card {
		t.Errorf("card for another host = %s, want %s", got.body, card)
	}
	if got := w.do(t, http.MethodGet, path, "", "Authorization", "Bearer x"); got.body != want.body {
		t.Errorf("card with credentials while the agent is down = %d %s, want the last one for anybody", got.status, got.body)
	}
	agent.fails.Store(0)
	if got := w.do(t, http.MethodGet, path, ""); got.header.Get("X-Sidecar-Card") != "" || got.header.Get("Warning") != "" {
		t.Errorf("headers when the agent is back = %v, want no mark", got.header)
	}
	agent.Close()
	if got := w.do(t, http.MethodGet, path, ""); got.status != http.StatusOK || got.body != want.body {
		t.Errorf("card when the agent is gone = %d %s, want the last one", got.status, got.body)
	}
}

// What one caller may see is not kept for another, and what the agent serves
// for one request is not served for a different one.
func TestCardsThatAreNotKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		path         string
		asked, again []string // headers
		header       []string // of the agent's answer
	}{
		{name: "credentials", path: newPath, asked: []string{"Authorization", "Bearer x"}},
		{name: "a cookie", path: newPath, asked: []string{"Cookie", "a=b"}},
		{name: "a key", path: newPath, asked: []string{"X-Api-Key", "x"}},
		{name: "a user", path: newPath, asked: []string{"X-User-Id", "x"}},
		{name: "credentials for a proxy", path: newPath, asked: []string{"Proxy-Authorization", "Basic x"}},
		{name: "a token", path: newPath, asked: []string{"X-Forwarded-Access-Token", "x"}},
		{name: "a secret", path: newPath, asked: []string{"CF-Access-Client-Secret", "x"}},
		{name: "a gateway's word", path: newPath, asked: []string{"X-Auth-Request-Email", "x"}},
		{name: "no-store", path: newPath, header: []string{"Cache-Control", "max-age=1, No-Store"}},
		{name: "private", path: newPath, header: []string{"Cache-Control", `private="x"`}},
		{name: "set-cookie", path: newPath, header: []string{"Set-Cookie", "a=b"}},
		{name: "varies by what is not looked at", path: newPath, header: []string{"Vary", "A2A-Version, X-Api-Key"}},
		{name: "varies by anything", path: newPath, header: []string{"Vary", "*"}},
		{name: "extended", path: "/extendedAgentCard"},
		{name: "extended, 0.3", path: "/v1/card"},
		{name: "another version", path: newPath, again: []string{"A2A-Version", "1.0"}},
		{name: "another type", path: newPath, again: []string{"Accept", "application/x"}},
		{name: "another query", path: newPath + "?a=1"},
		{name: "another path", path: "/sub" + newPath},
		{name: "too much to tell apart", path: newPath, asked: []string{"Accept", strings.Repeat("x", 2<<10)}, again: []string{"Accept", strings.Repeat("x", 2<<10)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newMortal(t, func(w http.ResponseWriter, _ *http.Request) {
				for i := 0; i < len(tt.header); i += 2 {
					w.Header().Set(tt.header[i], tt.header[i+1])
				}
				says(`{"url":"http://agent/rpc"}`)(w, nil)
			})
			w := newWorld(t, agentAt("worker", agent.URL))
			if got := w.do(t, http.MethodGet, "/agents/worker"+tt.path, "", tt.asked...); got.status != http.StatusOK {
				t.Fatalf("card = %d %s, want 200", got.status, got.body)
			}
			agent.fails.Store(-1)
			again := tt.path
			if strings.HasPrefix(tt.name, "another query") || strings.HasPrefix(tt.name, "another path") {
				again = newPath
			}
			got := w.do(t, http.MethodGet, "/agents/worker"+again, "", tt.again...)
			if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "AGENT_UNREACHABLE") {
				t.Errorf("card when the agent is down = %d %s, want AGENT_UNREACHABLE", got.status, got.body)
			}
		})
	}
}

// A card that is taken back is not served again, one that went bad for a while is.
func TestCardsThatAreForgotten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		card   string
		want   int
	}{
		{"taken back", http.StatusNotFound, "none", http.StatusServiceUnavailable},
		{"gone", http.StatusGone, "none", http.StatusServiceUnavailable},
		{"not for others by now", http.StatusOK, `{"private":true}`, http.StatusServiceUnavailable},
		{"nonsense for a while", http.StatusOK, "<html>", http.StatusOK},
		{"a question by now", http.StatusUnauthorized, "who are you?", http.StatusOK},
		{"too many asked", http.StatusTooManyRequests, "later", http.StatusOK},
		{"a fault", http.StatusInternalServerError, "oh", http.StatusOK},
		{"not implemented for a while", http.StatusNotImplemented, "oh", http.StatusOK},
		{"a part", http.StatusPartialContent, `{}`, http.StatusOK},
		{"elsewhere for a while", http.StatusFound, "", http.StatusOK},
		{"too large by now", http.StatusOK, `{"x":"` + strings.Repeat("x", 256<<10) + `"}`, http.StatusServiceUnavailable},
		{"unsigned for a while", http.StatusOK, `{}`, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var second atomic.Bool
			agent := newMortal(t, func(w http.ResponseWriter, _ *http.Request) {
				if second.Load() {
					if tt.card == `{"private":true}` {
						w.Header().Set("Cache-Control", "private")
					}
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.card))
					return
				}
				says(signedCard(t, "py-1.3.0-es256"))(w, nil)
			})
			a := agentAt("worker", agent.URL)
			if tt.name == "unsigned for a while" {
				a = trusting(t, agent.URL, "es256.pem")
			}
			w := newWorld(t, a)
			const path = "/agents/worker" + newPath
			w.do(t, http.MethodGet, path, "")
			second.Store(true)
			w.do(t, http.MethodGet, path, "")
			agent.fails.Store(http.StatusServiceUnavailable)
			if got := w.do(t, http.MethodGet, path, ""); got.status != tt.want {
				t.Errorf("card when the agent is down = %d %s, want %d", got.status, got.body, tt.want)
			}
		})
	}
}

// As sent, a card is kept in the encoding that was asked for.
func TestCardsAsSentOfAgentsThatAreDown(t *testing.T) {
	t.Parallel()
	const card = ` {"url" : "http://agent/rpc"}`
	agent := newMortal(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `W/"agent's"`)
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			says(zipped(card))(w, r)
			return
		}
		says(card)(w, r)
	})
	a := agentAt("worker", agent.URL)
	a.CardsAsSent = true
	w := newWorld(t, a)
	const path = "/agents/worker" + newPath
	w.do(t, http.MethodGet, path, "")
	agent.fails.Store(http.StatusServiceUnavailable)
	if got := w.do(t, http.MethodGet, path, ""); got.body != card || got.header.Get("ETag") != `W/"agent's"` || got.header.Get("X-Sidecar-Card") != "stale" {
		t.Errorf("card = %q, %v; want the last one, marked", got.body, got.header)
	}
	if got := w.do(t, http.MethodGet, path, "", "If-None-Match", `"agent's"`); got.status != http.StatusNotModified {
		t.Errorf("card that is known = %d, want 304", got.status)
	}
	if got := w.do(t, http.MethodGet, path, "", "Accept-Encoding", "gzip"); got.status != http.StatusServiceUnavailable {
		t.Errorf("card in an encoding that was not asked for before = %d %q, want the agent's 503", got.status, got.body)
	}
}

// An agent that hangs is as good as down to who has its last card.
func TestCardsOfAgentsThatHang(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"before its answer", "within the body"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			var hangs atomic.Bool
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if !hangs.Load() {
					says(`{"url":"http://agent/rpc"}`)(w, r)
					return
				}
				if where == "within the body" {
					_, _ = w.Write([]byte("{"))
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			})
			w := newWorld(t, agentAt("worker", agent.URL))
			w.proxy.CardPatience("worker", 10*time.Millisecond)
			want := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
			hangs.Store(true)
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
			if got.status != http.StatusOK || got.body != want.body || got.header.Get("X-Sidecar-Card") != "stale" {
				t.Errorf("card = %d %s, %v; want the last one, marked", got.status, got.body, got.header)
			}
			// Without one, there is nothing better to do than to wait.
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/agents/worker"+newPath+"?other", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := w.Client().Transport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("a card that is not kept = %d, want none before the agent answers", resp.StatusCode)
			}
		})
	}
}

// Nobody but the sidecar says what it says of cards: an agent may stand behind
// another one, or lie.
func TestCardsDoNotSpeakForTheSidecar(t *testing.T) {
	t.Parallel()
	for _, asSent := range []bool{false, true} {
		agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"X-Sidecar-Card", "X-Sidecar-Root", "X-Sidecar-Session"} {
				w.Header().Set(name, "stale")
			}
			w.Header().Set("Age", "7")
			w.Header().Set("ETag", `"agent's"`)
			if r.Method == http.MethodPost {
				says(`{"jsonrpc":"2.0","id":1,"result":{"url":"http://agent/rpc"}}`)(w, r)
				return
			}
			says(`{"url":"http://agent/rpc"}`)(w, r)
		})
		a := agentAt("worker", agent.URL)
		a.CardsAsSent = asSent
		w := newWorld(t, a)
		for _, call := range cardCalls {
			got := call.ask(t, w)
			for name := range got.header {
				if strings.HasPrefix(name, "X-Sidecar-") {
					t.Errorf("%s, as sent %t: header %s is the agent's, want none", call.name, asSent, name)
				}
			}
			if age := got.header.Get("Age"); !asSent && age != "" {
				t.Errorf("%s: Age = %s, want none: the card is fresh", call.name, age)
			}
		}
		if asSent {
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "", "If-None-Match", `"agent's"`)
			if got.status != http.StatusOK {
				t.Errorf("card as sent = %d, want the agent's own 200", got.status)
			}
		}
	}
}
