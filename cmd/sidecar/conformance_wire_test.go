package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Case 61: parallel calls to an agent with isolated sessions make a session
// each; to any other, in one context, they make one.
func TestConformance61ParallelCalls(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		const calls = 11
		for _, tt := range []struct {
			agent    *actor
			policy   string
			sessions int
		}{
			{cast(t, "isolated"), "isolateSessions: true", calls},
			{cast(t, "shared"), "isolateSessions: false", 1},
		} {
			t.Run(tt.agent.name, func(t *testing.T) {
				s := st.serve(t, settings("maxChildren: 11", tt.agent.with(tt.policy)), "coordinator")[0]
				c, root := dial(t, s, tt.agent.name), "chat-"+tt.agent.name
				var made []*call
				for range calls {
					m := userSays("go")
					m.ContextID = "one-" + tt.agent.name
					made = append(made, stream(t, c, origin{root: root}, m))
				}
				contexts := map[string]int{}
				var jobs []*job
				for range calls {
					j := next(t, "the agent works", tt.agent.jobs)
					jobs = append(jobs, j)
					contexts[j.ContextID]++
				}
				for _, j := range jobs {
					j.end(a2a.TaskStateCompleted, "done")
				}
				for _, p := range made {
					p.finish(t, a2a.TaskStateCompleted)
				}
				if len(contexts) != tt.sessions {
					t.Errorf("%d calls ran in %d contexts, want %d", calls, len(contexts), tt.sessions)
				}
				tree, err := s.client(t).Tree(t.Context(), root)
				if err != nil {
					t.Fatal(err)
				}
				if len(tree.Sessions) != 1+tt.sessions {
					t.Fatalf("the tree has %d sessions, want the coordinator's and %d", len(tree.Sessions), tt.sessions)
				}
				for i, session := range tree.Sessions[1:] {
					if session.Parent != tree.Sessions[0].ID || session.Ordinal != i+1 || contexts[session.ContextID] != calls/tt.sessions || len(session.Runs) != calls/tt.sessions {
						t.Errorf("session %d is child %d of %s with %d runs in %s; want a sibling of its own", i, session.Ordinal, session.Parent, len(session.Runs), session.ContextID)
					}
				}
			})
		}
	})
}

// Case 62: agents that call on, each through its own sidecar and with the two
// headers that it was told, grow one tree.
func TestConformance62ThreeHops(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		hops := []*actor{cast(t, "alpha"), cast(t, "beta"), cast(t, "gamma")}
		s := st.serve(t, settings("", hops[0].with("isolateSessions: true"), hops[1].with("isolateSessions: true"), hops[2].with("kind: worker")),
			"coordinator", "alpha", "beta")
		const branch = "coordinator.alpha@1.beta@1.gamma@1"
		var calls []*call
		var jobs []*job
		from := origin{root: "chat", user: "alice"}
		for i, agent := range hops {
			calls = append(calls, stream(t, dial(t, s[i], agent.name), from, userSays("go")))
			j := next(t, agent.name+" works", agent.jobs)
			jobs = append(jobs, j)
			caller := "chat" // what it calls from: of the first hop the conversation itself
			if i > 0 {
				caller = jobs[i-1].ContextID
			}
			for name, want := range map[string]string{
				"x-kagent-root-context-id": "chat", "x-kagent-parent-context-id": caller, "x-user-id": "alice",
				lineage.HeaderDepth: strconv.Itoa(i + 1), lineage.HeaderBranch: strings.Join(strings.Split(branch, ".")[:i+2], "."),
			} {
				if got := j.Header.Values(name); !slices.Equal(got, []string{want}) {
					t.Errorf("%s was told %s: %q, want %q", agent.name, name, got, want)
				}
			}
			from = origin{root: j.origin().root, parent: j.ContextID, user: "alice"}
		}
		for i, j := range slices.Backward(jobs) {
			j.end(a2a.TaskStateCompleted, "done")
			calls[i].finish(t, a2a.TaskStateCompleted)
		}
		for i, j := range jobs {
			s[2].comes(t, j.session(), lineage.Completed, "")
			if i == 0 {
				continue
			}
			session, err := s[0].client(t).Session(t.Context(), j.session())
			if err != nil || session.Parent != jobs[i-1].session() || session.Depth != i+1 || session.ParentSource != lineage.FromHeader {
				t.Errorf("session of hop %d = depth %d below %s by %s, %v; want depth %d below %s by header",
					i+1, session.Depth, session.Parent, session.ParentSource, err, i+1, jobs[i-1].session())
			}
		}
		for _, s := range s {
			trees, err := s.client(t).Trees(t.Context(), adminapi.TreesQuery{})
			if err != nil || len(trees.Trees) != 1 || trees.Trees[0].Sessions != 4 || trees.Trees[0].Depth != 3 {
				t.Errorf("trees = %+v, %v; want one of 4 sessions, 3 deep", trees.Trees, err)
			}
		}
	})
}

// Case 63: whoever names a session of another user's as the parent of a call is
// refused, and leaves no trace in that tree.
func TestConformance63ForgedParent(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		planner, worker := cast(t, "planner"), cast(t, "worker")
		s := st.serve(t, settings("", planner.with("isolateSessions: true"), worker.with("isolateSessions: true")), "planner", "planner")
		p := plan(t, dial(t, s[0], "planner"), planner, origin{root: "alices", user: "alice"})
		others := func() []lineage.Event { // the planner's own may still be coming
			return slices.DeleteFunc(s[0].log(t, "alices"), func(e lineage.Event) bool { return e.Session == p.session() })
		}
		before := len(others())
		for name, forged := range map[string]origin{
			"root and parent": {root: "alices", parent: p.ContextID, user: "mallory"},
			"root alone":      {root: "alices", user: "mallory"},
			"parent alone":    {parent: p.ContextID, user: "mallory"},
			"nobody":          {root: "alices", parent: p.ContextID},
		} {
			for _, s := range s {
				refusal := forge(t, s.url("worker"), forged)
				if refusal == nil || refusal.Code != -32051 || len(refusal.Data) == 0 || refusal.Data[0].Reason != lineage.ContextForbidden {
					t.Errorf("%s: the call got %+v, want -32051 %s", name, refusal, lineage.ContextForbidden)
				}
			}
		}
		if n := len(worker.jobs); n != 0 {
			t.Errorf("%d forged calls reached the agent", n)
		}
		if after := others(); len(after) != before {
			t.Errorf("forged calls left %d events in the tree: %+v", len(after)-before, after[before:])
		}
		own := stream(t, dial(t, s[1], "worker"), p.origin(), userSays("go"))
		next(t, "the worker works", worker.jobs).end(a2a.TaskStateCompleted, "done")
		own.finish(t, a2a.TaskStateCompleted)
		p.complete(t)
	})
}

// rpcError is the error of a JSON-RPC answer of A2A 1.0.
type rpcError struct {
	Code    int
	Message string
	Data    []struct{ Reason lineage.Reason }
}

// forge makes a call and returns the error in the answer, nil if there is none.
func forge(t *testing.T, url string, from origin) *rpcError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(sendBody(a2a.NewMessageID(), "")))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range from.headers() {
		req.Header.Set(name, values[0])
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer drain(resp)
	var answer struct{ Error *rpcError }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Error
}

// Case 64: a task that is canceled upstream, by its caller or by somebody else,
// fails its session and frees the place, which the next in line gets.
func TestConformance64CanceledUpstream(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		worker := cast(t, "worker")
		s := st.serve(t, settings("maxChildren: 1", worker.with("isolateSessions: true")), "coordinator")[0]
		c, chat := dial(t, s, "worker"), origin{root: "chat"}
		cancel := func(j *job) {
			t.Helper()
			if _, err := c.CancelTask(chat.attach(t.Context()), &a2a.CancelTaskRequest{ID: j.TaskID}); err != nil {
				t.Fatalf("canceling: %v", err)
			}
		}
		current := stream(t, c, chat, userSays("go"))
		for i, cancel := range []func(*job){cancel, func(j *job) { j.end(a2a.TaskStateCanceled, "not now") }} {
			j := next(t, "the worker works", worker.jobs)
			following := stream(t, c, chat, userSays("go"))
			s.queued(t, "chat", i+1)
			cancel(j)
			current.finish(t, a2a.TaskStateCanceled)
			session := s.comes(t, j.session(), lineage.Failed, lineage.ReasonCanceled)
			if r := session.Runs[0]; r.State != lineage.Failed || r.Reason != lineage.ReasonCanceled {
				t.Errorf("run = %s %s, want failed canceled", r.State, r.Reason)
			}
			current = following
		}
		next(t, "the worker works", worker.jobs).end(a2a.TaskStateCompleted, "done")
		current.finish(t, a2a.TaskStateCompleted)
	})
}

// Case 65: without the store calls go on, unrecorded and by this sidecar's own
// counts; what ends meanwhile is recorded when the store is back.
func TestConformance65StoreDown(t *testing.T) {
	t.Parallel()
	st := onRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	worker, single := cast(t, "worker"), cast(t, "single")
	s := st.serve(t, settings("maxChildren: 2, queueTimeout: 0s", worker.with("isolateSessions: true"),
		single.with("isolateSessions: true, limits: {maxConcurrent: 1}")), "coordinator")[0]
	c, chat := dial(t, s, "worker"), origin{root: "chat"}
	toSingle := dial(t, s, "single")
	refused := func(p *call, want string) {
		t.Helper()
		if refusal := p.refusal(t); refusal == nil || !strings.Contains(refusal.Message, want) {
			t.Errorf("call got %v, want a refusal that says %q", p.err, want)
		}
	}
	before := stream(t, c, chat, userSays("before"))
	held := next(t, "the worker works", worker.jobs)
	next(t, "the call begins", before.begun)

	st.redis.Stop()
	during := stream(t, c, chat, userSays("during"))
	unrecorded := next(t, "the worker works without the store", worker.jobs)
	if id := unrecorded.session(); id != "" {
		t.Errorf("the unrecorded call was told of session %q", id)
	}
	if unrecorded.ContextID == held.ContextID || unrecorded.Header.Get("x-kagent-root-context-id") != "chat" {
		t.Errorf("the unrecorded call runs in %s of %v, want a context of its own in chat", unrecorded.ContextID, unrecorded.Header)
	}
	refused(stream(t, c, chat, userSays("too many")), "2 of 2 children running (maxChildren)")
	elsewhere := stream(t, toSingle, origin{root: "elsewhere"}, userSays("go"))
	alone := next(t, "the single one works", single.jobs)
	refused(stream(t, toSingle, origin{root: "third"}, userSays("go")), "1 of 1 calls running (maxConcurrent)")
	if status, body := get(t, "http://"+s.Admin+"/readyz"); status != http.StatusOK || !strings.Contains(body, "store: ") {
		t.Errorf("/readyz = %d %s, want 200, and what it does without", status, body)
	}
	held.end(a2a.TaskStateCompleted, "ended in the dark")
	before.finish(t, a2a.TaskStateCompleted)
	after := stream(t, c, chat, userSays("its place is free"))
	next(t, "the worker works in the free place", worker.jobs).end(a2a.TaskStateCompleted, "done")
	after.finish(t, a2a.TaskStateCompleted)

	st.redis.Restart(t)
	within(t, patience, "the sidecar does without nothing", func() bool {
		status, body := get(t, "http://"+s.Admin+"/readyz")
		return status == http.StatusOK && !strings.Contains(body, "store: ")
	})
	session := s.comes(t, held.session(), lineage.Completed, "")
	if session.Result == nil || session.Result.Summary != "ended in the dark" {
		t.Errorf("result = %+v, want that of the call that ended meanwhile", session.Result)
	}
	for j, p := range map[*job]*call{unrecorded: during, alone: elsewhere} {
		j.end(a2a.TaskStateCompleted, "done")
		p.finish(t, a2a.TaskStateCompleted)
	}
	again := stream(t, c, chat, userSays("recorded"))
	j := next(t, "the worker works", worker.jobs)
	j.end(a2a.TaskStateCompleted, "done")
	again.finish(t, a2a.TaskStateCompleted)
	s.comes(t, j.session(), lineage.Completed, "")
}
