package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// values picks the headers under some prefixes, as they came.
func values(h http.Header, prefixes ...string) map[string][]string {
	got := map[string][]string{}
	for name, v := range h {
		name = strings.ToLower(name)
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			got[name] = v
		}
	}
	return got
}

func TestLineageHeaders(t *testing.T) {
	t.Parallel()
	const id = "<id>" // stands for whatever id
	full := func(root, parent, branch, depth string, more ...string) map[string][]string {
		h := map[string][]string{
			"x-kagent-root-context-id": {root}, "x-kagent-parent-context-id": {parent},
			"x-sidecar-session-id": {id}, "x-sidecar-branch": {branch}, "x-sidecar-depth": {depth},
		}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = []string{more[i+1]}
		}
		return h
	}
	for _, tt := range []struct {
		name string
		told lineage.Told
		sent []string
		want map[string][]string
	}{
		{"full", lineage.ToldFull, nil, full("chat", "chat", "coordinator.worker@1", "1")},
		{"root only", lineage.ToldRoot, nil, map[string][]string{"x-kagent-root-context-id": {"chat"}, "x-kagent-parent-context-id": {"chat"}}},
		{"none", lineage.ToldNone, nil, map[string][]string{}},
		{
			"the caller's own stay", lineage.ToldFull,
			[]string{"X-Kagent-Root-Context-Id", "top", "x-kagent-parent-context-id", "mid"},
			full("top", "mid", "root.coordinator@1.worker@1", "2"),
		},
		{
			"the caller's own stay for root", lineage.ToldRoot,
			[]string{"x-kagent-root-context-id", "top", "x-kagent-parent-context-id", "mid"},
			map[string][]string{"x-kagent-root-context-id": {"top"}, "x-kagent-parent-context-id": {"mid"}},
		},
		{
			"nothing for none, though the caller says it", lineage.ToldNone,
			[]string{"x-kagent-root-context-id", "top", "x-kagent-parent-context-id", "mid"},
			map[string][]string{},
		},
		{"an empty header is none", lineage.ToldFull, []string{"x-kagent-root-context-id", ""}, full("chat", "chat", "coordinator.worker@1", "1")},
		{
			"turn and depth of the caller count, its other claims do not", lineage.ToldFull,
			[]string{
				"x-kagent-root-context-id", "top", "x-kagent-parent-context-id", "mid", "x-sidecar-turn", "turn-1", "x-sidecar-depth", "2",
				"x-sidecar-session-id", "forged", "x-sidecar-branch", "forged", "x-sidecar-isolate", "true", "X-SIDECAR-anything", "x",
			},
			full("top", "mid", "root.coordinator@1.worker@1", "3", "x-sidecar-turn", "turn-1"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			a := agentAt("worker", agent.URL)
			a.Told = tt.told
			w := newWorld(t, a)
			if got := w.post(t, send10("m1", `,"contextId":"chat"`), tt.sent...); got.status != http.StatusOK || got.body != message10 {
				t.Fatalf("call = %d %s", got.status, got.body)
			}
			got := values(agent.only(t).header, "x-kagent-", "x-sidecar-")
			if s, ok := got["x-sidecar-session-id"]; ok {
				if root := tt.want["x-kagent-root-context-id"][0]; len(s) != 1 || !w.knows(t, root, s[0]) {
					t.Errorf("session %q is not in the tree", s)
				}
				got["x-sidecar-session-id"] = []string{id}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("headers at the agent (-want +got):\n%s", diff)
			}
		})
	}
}

// A task goes on in its own tree, whatever the headers say; but what they say
// is what the agent hears.
func TestLineageHeadersOfAnotherTree(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(working10))
	w := newWorld(t, agentAt("worker", agent.URL))
	w.post(t, send10("m1", ""), "x-kagent-root-context-id", "top")
	got := w.post(t, send10("m2", `,"taskId":"t1"`), "x-kagent-root-context-id", "other", "x-kagent-parent-context-id", "mid")
	if root := got.header.Get("x-sidecar-root-context-id"); root != "top" {
		t.Errorf("the task went on in %q, want top", root)
	}
	want := map[string][]string{"x-kagent-root-context-id": {"other"}, "x-kagent-parent-context-id": {"mid"}}
	if diff := cmp.Diff(want, values(agent.received()[1].header, "x-kagent-")); diff != "" {
		t.Errorf("headers at the agent (-want +got):\n%s", diff)
	}
}

// knows reports whether a session is in a tree.
func (w *world) knows(t *testing.T, root, session string) bool {
	t.Helper()
	s, err := w.store.Session(t.Context(), session)
	return err == nil && s.Tree == root
}

func TestLineageHeadersUnderAnotherPrefix(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorldWith(t, func(_ *sessions.Options, o *proxy.Options) { o.HeaderPrefix = "x-acme-" }, agentAt("worker", agent.URL))
	w.post(t, send10("m1", ""), "x-acme-root-context-id", "top", "x-kagent-root-context-id", "other")
	want := map[string][]string{
		"x-acme-root-context-id": {"top"}, "x-acme-parent-context-id": {"top"},
		"x-kagent-root-context-id": {"other"}, // no header of ours
	}
	if diff := cmp.Diff(want, values(agent.only(t).header, "x-acme-", "x-kagent-")); diff != "" {
		t.Errorf("headers at the agent (-want +got):\n%s", diff)
	}
}

// Calls that send no message run in no session, and say nothing of one.
func TestOtherCallsBearNoLineage(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(working10))
	w := newWorld(t, agentAt("worker", agent.URL))
	forged := []string{"x-sidecar-session-id", "forged", "x-sidecar-depth", "3"}
	w.post(t, send10("m1", ""))
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"unknown"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`,
		`{"jsonrpc":"2.0","id":1,"method":"custom/method"}`,
		`{"no":"call"}`,
	} {
		w.post(t, body, forged...)
	}
	w.do(t, http.MethodGet, "/agents/worker/files/1", "", forged...)
	w.do(t, http.MethodGet, "/agents/worker/.well-known/agent-card.json", "", forged...)
	for _, r := range agent.received()[1:] {
		if diff := cmp.Diff(map[string][]string{}, values(r.header, "x-kagent-", "x-sidecar-")); diff != "" {
			t.Errorf("headers of %s %s (-want +got):\n%s", r.uri, r.body, diff)
		}
	}
}

// An agent that is to be told nothing is told nothing by requests either that
// the sidecar passes without reading them.
func TestUnreadRequestsBearNoLineage(t *testing.T) {
	t.Parallel()
	for told, want := range map[lineage.Told]map[string][]string{
		lineage.ToldNone: {},
		lineage.ToldFull: {"x-kagent-root-context-id": {"top"}, "x-kagent-parent-context-id": {"mid"}},
	} {
		agent := newFake(t, says(working10))
		a := agentAt("worker", agent.URL)
		a.Told = told
		w := newWorld(t, a)
		headers := []string{"x-kagent-root-context-id", "top", "x-kagent-parent-context-id", "mid"}
		w.post(t, `{"no":"call"}`, headers...)
		w.do(t, http.MethodGet, "/agents/worker/files/1", "", headers...)
		w.do(t, http.MethodGet, "/agents/worker/.well-known/agent-card.json", "", headers...)
		for _, r := range agent.received() {
			if diff := cmp.Diff(want, values(r.header, "x-kagent-")); diff != "" {
				t.Errorf("told %s, headers of %s %s (-want +got):\n%s", told, r.uri, r.body, diff)
			}
		}
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<10)
	for _, tt := range []struct {
		name, want string
		headers    []string
	}{
		{"root twice", "header x-kagent-root-context-id occurs 2 times", []string{"x-kagent-root-context-id: a", "X-Kagent-Root-Context-Id: b"}},
		{"the same root twice", "header x-kagent-root-context-id occurs 2 times", []string{"x-kagent-root-context-id: a", "x-kagent-root-context-id: a"}},
		{"parent twice", "header x-kagent-parent-context-id occurs 2 times", []string{"x-kagent-parent-context-id: a", "x-kagent-parent-context-id: b"}},
		{"user twice", "header x-user-id occurs 2 times", []string{"x-user-id: a", "x-user-id: a"}},
		{"user thrice", "header x-user-id occurs 3 times", []string{"x-user-id: a", "x-user-id: a", "x-user-id:"}},
		{"turn twice", "header x-sidecar-turn occurs 2 times", []string{"x-sidecar-turn: a", "x-sidecar-turn: b"}},
		{"depth twice", "header x-sidecar-depth occurs 2 times", []string{"x-sidecar-depth: 1", "x-sidecar-depth: 1"}},
		{"version twice", "header a2a-version occurs 2 times", []string{"A2A-Version: 1.0", "a2a-version: 0.3"}},
		{"content type twice", "header content-type occurs 2 times", []string{"Content-Type: application/json"}},
		{"trace twice", "header traceparent occurs 2 times", []string{"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "traceparent: x"}},
		{"credentials twice", "header authorization occurs 2 times", []string{"Authorization: Bearer a", "authorization: Bearer b"}},
		{"long root", "header x-kagent-root-context-id is longer than 512 bytes", []string{"x-kagent-root-context-id: " + long}},
		{"long parent", "header x-kagent-parent-context-id is longer than 512 bytes", []string{"x-kagent-parent-context-id: " + long}},
		{"long user", "header x-user-id is longer than 512 bytes", []string{"x-user-id: " + long}},
		{"control character", "header x-kagent-root-context-id contains a control character", []string{"x-kagent-root-context-id: a\u0085b"}},
		{"tab", "header x-user-id contains a control character", []string{"x-user-id: a\tb"}},
		{"not UTF-8", "header x-kagent-parent-context-id is not valid UTF-8", []string{"x-kagent-parent-context-id: a\xffb"}},
		{"no depth", "header x-sidecar-depth is not a depth", []string{"x-sidecar-depth: deep"}},
		{"negative depth", "header x-sidecar-depth is not a depth", []string{"x-sidecar-depth: -1"}},
		{"great depth", "header x-sidecar-depth is not a depth", []string{"x-sidecar-depth: 99999999"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			w := newWorld(t, agentAt("worker", agent.URL))
			before := w.recorded(t)
			for _, body := range []string{send10("m1", ""), stream10("m1", ""), `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`} {
				got := w.rawPost(t, "/agents/worker", body, tt.headers...)
				e := readError(t, got, strings.Contains(body, "Streaming"))
				if got.status != http.StatusOK || e.Error.Code != -32600 || e.Error.Message != tt.want || string(e.ID) != "1" {
					t.Errorf("answer = %d %+v, want 200, -32600, id 1, %q", got.status, e, tt.want)
				}
			}
			if n := len(agent.received()); n != 0 {
				t.Errorf("agent got %d requests, want none", n)
			}
			w.unchanged(t, before)
		})
	}
}

// What no page of ours names leaves as it came.
func TestOtherHeadersPass(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	head := []string{
		"Authorization: Bearer token", "X-User-Id: ada", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2", "X-Forwarded-Proto: https",
		"X-Forwarded-Host: shop.example", "Forwarded: for=192.0.2.1;by=x", "Via: 1.1 gate", "A2A-Version: 1.0", "A2A-Extensions: a",
		"A2A-Extensions: b", "X-Empty:", "X-Odd: \u00fc \"quoted\"", "Accept: text/event-stream, */*;q=0.1", "Cookie: a=b; c=d", "X-Real-Ip: 192.0.2.3",
		// Of one connection only:
		"Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Authorization: Basic x", "Proxy-Connection: keep-alive",
		"Te: trailers, gzip", "Upgrade-Insecure-Requests: 1",
		"Accept-Encoding: br, gzip;q=0.5", // what the tap cannot read goes
	}
	body := send10("m1", "")
	w.rawPost(t, "/agents/worker", body, head...)
	got := agent.only(t).header
	for name := range values(got, "x-kagent-", "x-sidecar-") {
		got.Del(name)
	}
	want := http.Header{
		"Authorization": {"Bearer token"}, "X-User-Id": {"ada"}, "X-Forwarded-For": {"192.0.2.1", "192.0.2.2"}, "X-Forwarded-Proto": {"https"},
		"X-Forwarded-Host": {"shop.example"}, "Forwarded": {"for=192.0.2.1;by=x"}, "Via": {"1.1 gate"}, "A2a-Version": {"1.0"}, "A2a-Extensions": {"a", "b"},
		"X-Empty": {""}, "X-Odd": {"\u00fc \"quoted\""}, "Accept": {"text/event-stream, */*;q=0.1"}, "Cookie": {"a=b; c=d"}, "X-Real-Ip": {"192.0.2.3"},
		"Upgrade-Insecure-Requests": {"1"}, "Te": {"trailers"}, "Content-Type": {"application/json"}, "Content-Length": {itoa(len(body))},
		"Accept-Encoding": {"gzip;q=0.5"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers at the agent (-want +got):\n%s", diff)
	}
}

// Nothing is invented either: no User-Agent, no forwarding headers.
func TestNoHeadersAreInvented(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(`{"name":"card"}`))
	w := newWorld(t, agentAt("worker", agent.URL))
	addr := w.Listener.Addr().String()
	raw(t, addr, "GET /agents/worker/.well-known/agent-card.json HTTP/1.1\nHost: sidecar\nConnection: close, X-Hop\nX-Hop: 1\nTe: gzip", "")
	raw(t, addr, "GET /agents/worker/files HTTP/1.1\nHost: sidecar\nConnection: close, X-Hop\nX-Hop: 1", "")
	for _, r := range agent.received() {
		if diff := cmp.Diff(http.Header{}, r.header); diff != "" {
			t.Errorf("headers of %s (-want +got):\n%s", r.uri, diff)
		}
	}
	if n := len(agent.received()); n != 2 {
		t.Errorf("agent got %d requests, want 2", n)
	}
}

// Of Accept-Encoding goes what the tap cannot read where the answer is read, all
// of it where the answer is edited, and nothing elsewhere.
func TestAcceptEncoding(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(working10))
	w := newWorld(t, agentAt("worker", agent.URL))
	for _, body := range []string{
		send10("m1", ""), `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`, `{"no":"call"}`,
	} {
		w.post(t, body, "Accept-Encoding", "br, gzip")
	}
	var got []string
	for _, r := range agent.received() {
		got = append(got, r.header.Get("Accept-Encoding"))
	}
	if diff := cmp.Diff([]string{"gzip", "gzip", "", "gzip", "br, gzip"}, got); diff != "" {
		t.Errorf("Accept-Encoding at the agent (-want +got):\n%s", diff)
	}
}
