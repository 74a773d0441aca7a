package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-sidecar/a2a-sidecar/admin"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// keeper answers every change with what it is told to, and remembers what it
// was asked.
type keeper struct {
	session lineage.Session
	again   bool // the request id has been seen
	err     error

	spawned sessions.Spawn
	stepped sessions.Step
	asked   int
}

func (k *keeper) Spawn(_ context.Context, s sessions.Spawn) (lineage.Session, bool, error) {
	k.spawned = s
	k.asked++
	return k.session, !k.again, k.err
}

func (k *keeper) Step(_ context.Context, s sessions.Step) (lineage.Session, error) {
	k.stepped = s
	k.asked++
	return k.session, k.err
}

// record is a reader of one session.
type record struct {
	broken
	session lineage.Session
}

func (r record) Session(context.Context, string) (lineage.Session, error) { return r.session, r.err }

// noNulls takes what JSON has no words for as the same.
var noNulls = cmp.Options{cmpopts.EquateEmpty(), cmp.Transformer("null", func(raw json.RawMessage) string {
	return strings.TrimSuffix(string(raw), "null")
})}

// send posts body, as JSON unless header says otherwise (in pairs; an empty
// value takes the header away).
func send(h http.Handler, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8402"+target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
		if header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	sessionsPath = "/api/v1/sessions"
	leastSpawn   = `{"root":"r","agent":"worker"}`
)

func TestSpawn(t *testing.T) {
	t.Parallel()
	k := &keeper{session: lineage.Session{ID: "s/1", Tree: "r", ContextID: "ctx", Reserved: true}}
	h := admin.New(admin.Options{Reader: broken{errors.New("not asked")}, Keeper: k})

	resp := send(h, sessionsPath, ` {"root":"r/ü","parent":"p","agent":"worker","kind":"worker","ttl":"5m","inherit":"none",`+
		`"contextSummary":"So far:\n…","isolate":false,"requestId":"q1"}`,
		"X-User-Id", "jwt:alice", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if resp.Code != http.StatusCreated || resp.Header().Get("Location") != "/api/v1/sessions/s%2F1" {
		t.Errorf("spawn = %d, Location %q, want 201 and where the session is", resp.Code, resp.Header().Get("Location"))
	}
	var got lineage.Session
	if err := json.Unmarshal(read(t, resp, http.StatusCreated, "application/json"), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "s/1" || got.ContextID != "ctx" || !got.Reserved || got.Runs == nil {
		t.Errorf("spawn gave %+v, want the session with its context, and runs []", got)
	}
	isolate := false
	want := sessions.Spawn{
		Root: "r/ü", Parent: "p", Agent: "worker", Principal: "user:jwt:alice", RequestID: "q1", TraceID: "0af7651916cd43dd8448eb211c80319c",
		Kind: lineage.Worker, TTL: 5 * time.Minute, Inherit: lineage.InheritNone, Isolate: &isolate, Summary: "So far:\n…",
	}
	if diff := cmp.Diff(want, k.spawned); diff != "" {
		t.Errorf("record was asked for (-want +got):\n%s", diff)
	}

	// What is left out, or null, is for the agent's configuration to say.
	for _, body := range []string{
		leastSpawn,
		`{"root":"r","parent":null,"agent":"worker","kind":null,"ttl":null,"inherit":null,"contextSummary":null,"isolate":null,"requestId":null}`,
		`{"root":"r","parent":"","agent":"worker","kind":"","inherit":"","contextSummary":"","requestId":""}`,
	} {
		if resp := send(h, sessionsPath, body, "Content-Type", ""); resp.Code != http.StatusUnsupportedMediaType {
			t.Errorf("spawn without a Content-Type = %d, want 415", resp.Code)
		}
		if resp := send(h, sessionsPath, body); resp.Code != http.StatusCreated {
			t.Errorf("spawn %s = %d %s, want 201", body, resp.Code, resp.Body)
		}
		if diff := cmp.Diff(sessions.Spawn{Root: "r", Agent: "worker"}, k.spawned); diff != "" {
			t.Errorf("record was asked by %s for (-want +got):\n%s", body, diff)
		}
	}
}

// The session of a request id that has been seen is answered as it stands.
func TestSpawnAgain(t *testing.T) {
	t.Parallel()
	k := &keeper{session: lineage.Session{ID: "s"}, again: true}
	now := lineage.Session{ID: "s", State: lineage.Completed, Runs: []lineage.Run{{ID: "run"}}}
	resp := send(admin.New(admin.Options{Reader: record{session: now}, Keeper: k}), sessionsPath, leastSpawn)
	got := readJSON[lineage.Session](t, resp)
	if diff := cmp.Diff(now, got, noNulls); diff != "" || resp.Header().Get("Location") != "" {
		t.Errorf("spawn again gave (-want +got), Location %q:\n%s", resp.Header().Get("Location"), diff)
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	const result = `{"status":%q,"summary":"done","artifacts":[{"id":"a","name":"n","mediaType":"text/plain","bytes":3,` +
		`"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}],"memoryIds":["m1","m2"]}`
	whole := func(status lineage.State) *lineage.Result {
		return &lineage.Result{
			Status: status, Summary: "done", MemoryIDs: []string{"m1", "m2"}, Artifacts: []lineage.Artifact{{
				ID: "a", Name: "n", MediaType: "text/plain", Bytes: 3, SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			}},
		}
	}
	tests := []struct {
		path, body string
		want       sessions.Step
	}{
		{"complete", "", sessions.Step{Verb: lineage.VerbComplete}},
		{"complete", "{}", sessions.Step{Verb: lineage.VerbComplete}},
		{"complete", `{"result":null}`, sessions.Step{Verb: lineage.VerbComplete}},
		{"complete", `{"result":{}}`, sessions.Step{Verb: lineage.VerbComplete, Result: &lineage.Result{}}},
		{"complete", `{"result":` + fmt.Sprintf(result, "") + `}`, sessions.Step{Verb: lineage.VerbComplete, Result: whole("")}},
		{"complete", `{"result":` + fmt.Sprintf(result, "completed") + `}`, sessions.Step{Verb: lineage.VerbComplete, Result: whole("completed")}},
		{"fail", "", sessions.Step{Verb: lineage.VerbFail}},
		{
			"fail", `{"reason":"rejected","result":` + fmt.Sprintf(result, "failed") + `}`,
			sessions.Step{Verb: lineage.VerbFail, Reason: "rejected", Result: whole("failed")},
		},
		{"suspend", "", sessions.Step{Verb: lineage.VerbSuspend}},
		{"resume", "{}", sessions.Step{Verb: lineage.VerbResume}},
		{"cancel", "{\n}", sessions.Step{Verb: lineage.VerbCancel}},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.body, func(t *testing.T) {
			t.Parallel()
			k := &keeper{session: lineage.Session{ID: "s/1"}}
			now := lineage.Session{ID: "s/1", State: lineage.Suspended, Runs: []lineage.Run{{ID: "run"}}}
			h := admin.New(admin.Options{Reader: record{session: now}, Keeper: k})
			got := readJSON[lineage.Session](t, send(h, sessionsPath+"/s%2F1/"+tt.path, tt.body))
			if diff := cmp.Diff(now, got, noNulls); diff != "" {
				t.Errorf("session (-want +got):\n%s", diff)
			}
			tt.want.Session = "s/1"
			if diff := cmp.Diff(tt.want, k.stepped); diff != "" {
				t.Errorf("record was asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// A change that was made is not denied because the record cannot be read after.
func TestStepWithoutALook(t *testing.T) {
	t.Parallel()
	k := &keeper{session: lineage.Session{ID: "s", State: lineage.Completed}}
	h := admin.New(admin.Options{Reader: broken{sessions.ErrUnavailable}, Keeper: k})
	if got := readJSON[lineage.Session](t, send(h, sessionsPath+"/s/complete", "")); got.State != lineage.Completed || got.Runs == nil {
		t.Errorf("session = %+v, want it completed, with runs []", got)
	}
}

func TestBadChanges(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	h := admin.New(admin.Options{Reader: broken{errors.New("not asked")}, Keeper: k})
	spawn := func(member string) string { return `{"root":"r","agent":"worker",` + member + `}` }
	long := strings.Repeat("x", 513)
	const complete, fail = sessionsPath + "/s/complete", sessionsPath + "/s/fail"
	tests := []struct {
		target, body string
		status       int
		detail       string // part of it
		header       []string
	}{
		{sessionsPath, "", 400, "root is missing", nil},
		{sessionsPath, "{}", 400, "root is missing", nil},
		{sessionsPath, `{"root":"","agent":"worker"}`, 400, "root is missing", nil},
		{sessionsPath, `{"root":"r"}`, 400, "agent is missing", nil},
		{sessionsPath, `{"root":" r","agent":"w"}`, 400, "root begins or ends with a space", nil},
		{sessionsPath, `{"root":"` + long + `","agent":"w"}`, 400, "root is longer than 512 bytes", nil},
		{sessionsPath, `{"root":"a\u0000b","agent":"w"}`, 400, "root contains a control character", nil},
		{sessionsPath, spawn(`"parent":"\n"`), 400, "parent contains a control character", nil},
		{sessionsPath, `{"root":"r","agent":"` + long + `"}`, 400, "agent is longer", nil},
		{sessionsPath, spawn(`"requestId":"` + long + `"`), 400, "requestId is longer", nil},
		{sessionsPath, spawn(`"kind":"main"`), 400, `kind "main" is not one of branch, worker`, nil},
		{sessionsPath, spawn(`"inherit":"all"`), 400, `inherit "all" is not one of full, summary, none`, nil},
		{sessionsPath, spawn(`"ttl":"soon"`), 400, `"ttl" is not a time span such as "5m"`, nil},
		{sessionsPath, spawn(`"ttl":""`), 400, `"ttl" is not a time span`, nil},
		{sessionsPath, spawn(`"ttl":"0s"`), 400, `ttl "0s" is less than 1ms`, nil},
		{sessionsPath, spawn(`"ttl":"-5m"`), 400, `ttl "-5m0s" is less than 1ms`, nil},
		{sessionsPath, spawn(`"ttl":300`), 400, `"ttl" cannot be a JSON number`, nil},
		{sessionsPath, spawn(`"isolate":"yes"`), 400, `"isolate" cannot be a JSON string`, nil},
		{sessionsPath, spawn(`"contextSummary":["a"]`), 400, `"contextSummary" cannot be a JSON array`, nil},
		{sessionsPath, spawn(`"turn":"t"`), 400, `unknown member "turn"`, nil},
		{sessionsPath, `{"Root":"r","agent":"worker"}`, 400, `unknown member "Root"`, nil},
		{sessionsPath, spawn(`"root":"other"`), 400, `the member "root" twice`, nil},
		{sessionsPath, `{"root":"r","agent":"worker"`, 400, "not JSON", nil},
		{sessionsPath, leastSpawn + "x", 400, "not JSON", nil},
		{sessionsPath, leastSpawn + leastSpawn, 400, "not JSON", nil},
		{sessionsPath, "{\"root\":\"\xff\",\"agent\":\"w\"}", 400, "not JSON", nil},
		{sessionsPath, "[]", 400, "not a JSON object", nil},
		{sessionsPath, "null", 400, "not a JSON object", nil},
		{sessionsPath, " ", 400, "not a JSON object", nil},
		{sessionsPath + "?root=r", "{}", 400, `unknown query parameter "root"`, nil},
		{sessionsPath, leastSpawn, 400, "x-user-id occurs 2 times", []string{"X-User-Id", "a", "X-User-Id", "b"}},
		{sessionsPath, leastSpawn, 400, "x-user-id is longer", []string{"X-User-Id", long}},
		{sessionsPath, spawn(`"contextSummary":"` + strings.Repeat("x", 1<<20) + `"`), 413, "longer than 1048576 bytes", nil},

		{complete, `{"reason":"x"}`, 400, "reason is for fail, not for complete", nil},
		{complete, `{"result":"x"}`, 400, `"result" cannot be a JSON string`, nil},
		{complete, `{"result":{"status":"failed"}}`, 400, `result.status "failed" is not one of completed`, nil},
		{complete, `{"result":{"memory":[]}}`, 400, `unknown member "result.memory"`, nil},
		{complete, `{"result":{"memoryIds":[1]}}`, 400, `"result.memoryIds[0]" cannot be a JSON number`, nil},
		{complete, `{"result":{"artifacts":[{}]}}`, 400, "result.artifacts[0].id is missing", nil},
		{complete, `{"result":{"artifacts":[{"id":"a"},{"id":"b","bytes":-1}]}}`, 400, "result.artifacts[1].bytes is negative", nil},
		{complete, `{"result":{"artifacts":[{"id":"a","bytes":"3"}]}}`, 400, `"result.artifacts[0].bytes" cannot be a JSON string`, nil},
		{complete, `{"result":{"artifacts":[{"id":"a","sha256":"abc"}]}}`, 400, "result.artifacts[0].sha256 is not", nil},
		{complete, `{"result":{"artifacts":[{"id":"a","sha256":"abcd"}]}}`, 400, "result.artifacts[0].sha256 is not", nil},
		{complete, `{"result":{"summary":"a","summary":"b"}}`, 400, `the member "result.summary" twice`, nil},
		{fail, `{"result":{"status":"completed"}}`, 400, `result.status "completed" is not one of failed`, nil},
		{fail, `{"reason":"lost"}`, 400, "the sidecar's own word", nil},
		{fail, `{"reason":"` + long + `"}`, 400, "reason is longer", nil},
		{fail, `{"reason":1}`, 400, `"reason" cannot be a JSON number`, nil},
		{sessionsPath + "/s/suspend", `{"result":{}}`, 400, "result is for complete and fail, not for suspend", nil},
		{sessionsPath + "/s/cancel", `{"reason":"x"}`, 400, "reason is for fail, not for cancel", nil},
		{sessionsPath + "/s/cancel", `{"grace":"1s"}`, 400, `unknown member "grace"`, nil},
		{sessionsPath + "/s/resume?force=true", "", 400, `unknown query parameter "force"`, nil},
		{sessionsPath + "/s/revive", "", 404, "nothing at this path", nil},
		{sessionsPath + "/s", "{}", 405, "POST does not go with this path", nil},

		{sessionsPath, leastSpawn, 415, "application/json", []string{"Content-Type", ""}},
		{complete, "{}", 415, "application/json", []string{"Content-Type", ""}},
	}
	for _, mediaType := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/jsonx", "json", ";",
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8402"+sessionsPath, strings.NewReader(leastSpawn))
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		problem(t, w, http.StatusUnsupportedMediaType)
	}
	problem(t, send(h, sessionsPath, leastSpawn, "Content-Encoding", "gzip"), http.StatusUnsupportedMediaType)
	for _, tt := range tests {
		if p := problem(t, send(h, tt.target, tt.body, tt.header...), tt.status); !strings.Contains(p.Detail, tt.detail) {
			t.Errorf("POST %s %.80s: detail %q, want %q in it", tt.target, tt.body, p.Detail, tt.detail)
		}
	}
	if k.asked > 0 {
		t.Errorf("the record was asked %d times, want never", k.asked)
	}
	if resp := send(h, complete, "{}", "Content-Type", "", "Content-Type", "Application/JSON; charset=UTF-8", "Content-Encoding", "identity"); resp.Code != http.StatusOK {
		t.Errorf("complete in other words for JSON = %d %s, want 200", resp.Code, resp.Body)
	}
}

// What the record refuses, and how the API says so.
func TestChangesRefused(t *testing.T) {
	t.Parallel()
	refusal := func(reason lineage.Reason) *lineage.Refusal {
		return &lineage.Refusal{Reason: reason, Parent: "coordinator", ParentID: "p", Agent: "worker"}
	}
	capped := func(reason lineage.Reason, limit string) *lineage.Refusal {
		r := refusal(reason)
		r.Limit, r.Value, r.Count = limit, 8, 9
		return r
	}
	tests := []struct {
		err    error
		status int
		reason string
		limit  string
		retry  string // Retry-After
		detail string // part of it
	}{
		{capped(lineage.ChildrenLimit, "maxChildren"), 429, "CHILDREN_LIMIT", "maxChildren", "1", "session coordinator has 9 of 8 children running"},
		{capped(lineage.FanOutLimit, "maxFanOut"), 429, "FANOUT_LIMIT", "maxFanOut", "1", "retry when one ends"},
		{capped(lineage.ConcurrencyLimit, "maxConcurrent"), 429, "CONCURRENCY_LIMIT", "maxConcurrent", "1", "agent worker has"},
		{capped(lineage.DepthLimit, "maxDepth"), 400, "DEPTH_LIMIT", "maxDepth", "", "would stand at depth 9 of at most 8"},
		{capped(lineage.SessionsLimit, "maxSessions"), 400, "SESSIONS_LIMIT", "maxSessions", "", "has made 9 of 8 sessions"},
		{capped(lineage.LoopLimit, "maxVisits"), 400, "LOOP_LIMIT", "maxVisits", "", "loop limit reached"},
		{refusal(lineage.LeafSession), 400, "LEAF_SESSION", "", "", "is a worker"},
		{refusal(lineage.ParentEnded), 409, "PARENT_ENDED", "", "", "has ended or is being ended"},
		{refusal(lineage.ContextForbidden), 403, "CONTEXT_FORBIDDEN", "", "", "another user's"},
		{refusal(lineage.StoreUnavailable), 503, "STORE_UNAVAILABLE", "", "5", "cannot be reached"},
		{&lineage.Conflict{Verb: "suspend", Session: "s", Kind: lineage.Worker, State: lineage.Active, Why: "it is a worker"}, 409, "Conflict", "", "", "session s is active and cannot suspend: it is a worker"},
		{sessions.ErrNotFound, 404, "", "", "", "no session with the id"},
		{sessions.ErrUnknownAgent, 404, "UNKNOWN_AGENT", "", "", "no agent of this name"},
		{sessions.ErrAgentNames, 409, "AGENT_NAMES_CONTEXTS", "", "", "contextIds: agent"},
		{sessions.ErrRequestReused, 409, "REQUEST_REUSED", "", "", "another agent, parent or kind"},
		{sessions.ErrUnavailable, 503, "STORE_UNAVAILABLE", "", "5", "cannot be reached"},
		{errors.New("secret"), 500, "", "", "", "its log says why"},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			t.Parallel()
			k := &keeper{err: fmt.Errorf("asking 10.0.0.1: %w", tt.err)}
			h := admin.New(admin.Options{Reader: broken{errors.New("not asked")}, Keeper: k})
			for target, body := range map[string]string{
				sessionsPath: `{"root":"r","parent":"p","agent":"worker"}`, sessionsPath + "/p/suspend": "",
			} {
				resp := send(h, target, body)
				p := problem(t, resp, tt.status)
				if p.Reason != tt.reason || p.Limit != tt.limit || !strings.Contains(p.Detail, tt.detail) || strings.Contains(p.Detail, "10.0.0.1") {
					t.Errorf("%s = %+v, want reason %q, limit %q, %q in the detail and nothing of the cause", target, p, tt.reason, tt.limit, tt.detail)
				}
				if tt.limit != "" && (p.Value != 8 || p.Count != 9 || p.Parent != "coordinator") {
					t.Errorf("%s = %+v, want value 8, count 9, parent coordinator", target, p)
				}
				if got := resp.Header().Get("Retry-After"); got != tt.retry {
					t.Errorf("%s: Retry-After %q, want %q", target, got, tt.retry)
				}
			}
		})
	}
}

// Without a keeper nothing can be changed, and that is said before all else.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	h := admin.New(admin.Options{Reader: broken{errors.New("not asked")}})
	for _, target := range []string{sessionsPath, sessionsPath + "/s/complete", sessionsPath + "/s/cancel"} {
		if p := problem(t, send(h, target, "nonsense"), http.StatusNotImplemented); p.Reason != "READ_ONLY" {
			t.Errorf("POST %s = %+v, want reason READ_ONLY", target, p)
		}
	}
}

// Pages of other sites, and callers without the token, change nothing.
func TestChangesAreGuarded(t *testing.T) {
	t.Parallel()
	k := &keeper{session: lineage.Session{ID: "s"}}
	h := admin.New(admin.Options{Reader: record{}, Keeper: k, Token: "sesame"})
	for _, target := range []string{sessionsPath, sessionsPath + "/s/cancel"} {
		body := ""
		if target == sessionsPath {
			body = leastSpawn
		}
		problem(t, send(h, target, body), http.StatusUnauthorized)
		problem(t, send(h, target, body, "Authorization", "Bearer sesam"), http.StatusUnauthorized)
		problem(t, send(h, target, body, "Authorization", "Bearer sesame", "Origin", "https://evil.example"), http.StatusForbidden)
		problem(t, send(h, target, body, "Authorization", "Bearer sesame", "Origin", "null"), http.StatusForbidden)
		if k.asked > 0 {
			t.Fatalf("POST %s reached the record", target)
		}
		resp := send(h, target, body, "Authorization", "Bearer sesame", "Origin", "http://127.0.0.1:8402")
		if resp.Code >= 300 || k.asked != 1 {
			t.Errorf("POST %s of the API's own page = %d %s, want it done", target, resp.Code, resp.Body)
		}
		k.asked = 0
	}
}
