package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The world of the conformance tests: sidecars as serve runs them, agents and
// clients of the a2a-go SDK. What an agent does, and when, is up to the test,
// which is handed every message and says the last word on it:
//
//	test ─▶ call ─SDK client─▶ sidecar ─▶ actor ─▶ job ─▶ test
//	     ◀─────────────────────────────────────── end ──◀

// patience is how long a test waits for what must happen. That it must happen
// fast is said where it must.
const patience = 20 * time.Second

// stage is one store with the sidecars over it.
type stage struct {
	store string
	redis *redistest.Server // nil: the store is SQLite
}

// inWorld plays a test over each store.
func inWorld(t *testing.T, play func(t *testing.T, st *stage)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		play(t, &stage{store: "sqlite:" + filepath.Join(t.TempDir(), "conformance.db")})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		play(t, onRedis(t))
	})
}

func onRedis(t *testing.T, args ...string) *stage {
	t.Helper()
	server := redistest.Start(t, args...)
	return &stage{store: server.URL(), redis: server}
}

// settings is a configuration file but for the store.
func settings(limits string, agents ...string) string {
	yml := "limits: {" + limits + "}\nagents:\n"
	for _, a := range agents {
		yml += "  - {" + a + "}\n"
	}
	return yml
}

// serve runs a sidecar beside each of the named agents. A SQLite store is one
// sidecar's own: there one stands beside all of them.
func (st *stage) serve(t *testing.T, settings string, beside ...string) []*served {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sidecar.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%sstore: %q\n", settings, st.store), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*served
	for i, name := range beside {
		if i > 0 && st.redis == nil {
			all = append(all, all[0])
			continue
		}
		all = append(all, startServe(t, "--config", file, "--local-name", name))
	}
	return all
}

// origin says where calls come from, in the headers that agents send.
type origin struct{ root, parent, user, token string }

// origin is that of the calls that an agent makes for a job: it passes on what
// it was told, and names its own context as the parent.
func (j *job) origin() origin {
	return origin{root: j.Header.Get("x-kagent-root-context-id"), parent: j.ContextID, user: j.Header.Get("x-user-id")}
}

func (o origin) headers() map[string][]string {
	h := map[string][]string{}
	for name, value := range map[string]string{
		"x-kagent-root-context-id": o.root, "x-kagent-parent-context-id": o.parent, "x-user-id": o.user, "authorization": o.token,
	} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	return h
}

// attach makes calls under ctx come from o.
func (o origin) attach(ctx context.Context) context.Context {
	return a2aclient.AttachServiceParams(ctx, o.headers())
}

// dial makes the SDK's client for an agent behind a sidecar, by its card.
func dial(t *testing.T, s *served, agent string) *a2aclient.Client {
	t.Helper()
	hc := &http.Client{}
	card, err := agentcard.NewResolver(hc).Resolve(t.Context(), s.url(agent))
	if err != nil {
		t.Fatalf("resolving the card of %s: %v", agent, err)
	}
	c, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithJSONRPCTransport(hc))
	if err != nil {
		t.Fatalf("making a client for %s: %v", agent, err)
	}
	t.Cleanup(func() { _ = c.Destroy() }) // it holds nothing but the HTTP client
	return c
}

func userSays(text string) *a2a.Message {
	return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
}

// call is one message on its way. What it has come to may be read once done is
// closed, task also once begun is.
type call struct {
	leave context.CancelFunc // goes away from it
	begun chan struct{}      // closed when the agent's first word has come, which names the task
	done  chan struct{}
	task  a2a.TaskID
	state a2a.TaskState
	words string
	err   error
	ended time.Time
}

// stream sends a message and follows the answer.
func stream(t *testing.T, c *a2aclient.Client, from origin, m *a2a.Message) *call {
	t.Helper()
	return begin(t, from, func(ctx context.Context) iter.Seq2[a2a.Event, error] {
		return c.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: m})
	})
}

// block sends a message whose answer comes as a whole, at the end.
func block(t *testing.T, c *a2aclient.Client, from origin, m *a2a.Message) *call {
	t.Helper()
	return begin(t, from, func(ctx context.Context) iter.Seq2[a2a.Event, error] {
		return func(yield func(a2a.Event, error) bool) {
			answer, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: m})
			if err != nil {
				yield(nil, err)
				return
			}
			yield(answer.(a2a.Event), nil)
		}
	})
}

func begin(t *testing.T, from origin, send func(context.Context) iter.Seq2[a2a.Event, error]) *call {
	t.Helper()
	ctx, leave := context.WithCancel(from.attach(t.Context()))
	p := &call{leave: leave, begun: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer leave()
		defer close(p.done)
		for e, err := range send(ctx) {
			if err != nil {
				p.err = err
				break
			}
			p.hear(e)
		}
		p.ended = time.Now()
	}()
	return p
}

func (p *call) hear(e a2a.Event) {
	if p.task == "" {
		p.task = e.TaskInfo().TaskID
		close(p.begun)
	}
	var status a2a.TaskStatus
	switch e := e.(type) {
	case *a2a.Task:
		status = e.Status
	case *a2a.TaskStatusUpdateEvent:
		status = e.Status
	}
	p.state = status.State
	if status.Message != nil && len(status.Message.Parts) > 0 {
		p.words = status.Message.Parts[0].Text()
	}
}

// next takes what comes first, and fails if nothing does.
func next[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-from: // closed channels tell, too
		return v
	case <-late.C:
		t.Fatalf("not within %s: %s", patience, what)
		panic("unreachable")
	}
}

// finish waits for the end of a call, which must be a task in a state.
func (p *call) finish(t *testing.T, want a2a.TaskState) {
	t.Helper()
	next(t, "the call ends", p.done)
	if p.err != nil || p.state != want {
		t.Fatalf("call of task %s ended as %s, %v; want %s", p.task, p.state, p.err, want)
	}
}

// refusal waits for the end of a call and returns what the sidecar refused it
// with, nil if it did not.
func (p *call) refusal(t *testing.T) *a2a.Error {
	t.Helper()
	next(t, "the call ends", p.done)
	refusal, _ := errors.AsType[*a2a.Error](p.err)
	return refusal
}

// comes waits until a session is in a state, with a reason.
func (s *served) comes(t *testing.T, id string, state lineage.State, reason string) lineage.Session {
	t.Helper()
	api := s.client(t)
	late := time.NewTimer(patience)
	defer late.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		session, err := api.Session(t.Context(), id)
		if err != nil {
			t.Fatalf("reading session %q: %v", id, err)
		}
		if session.State == state && session.Reason == reason {
			return session
		}
		select {
		case <-look.C:
		case <-late.C:
			t.Fatalf("session %s is %s %q, want %s %q", session.Branch, session.State, session.Reason, state, reason)
		}
	}
}

// log reads the whole log of a tree.
func (s *served) log(t *testing.T, root string) []lineage.Event {
	t.Helper()
	api := s.client(t)
	var all []lineage.Event
	q := adminapi.EventsQuery{As: adminapi.AsAll, Limit: adminapi.MaxPage}
	for {
		page, err := api.Events(t.Context(), root, q)
		if adminapi.StatusOf(err) == http.StatusNotFound {
			return nil // nothing has happened there yet
		}
		if err != nil {
			t.Fatalf("reading the log of %s: %v", root, err)
		}
		if len(page.Events) == 0 {
			return all
		}
		all, q.After = append(all, page.Events...), page.Next
	}
}

// told returns the events of a type and session, or of any session if that is empty.
func told(log []lineage.Event, eventType, session string) []lineage.Event {
	return slices.DeleteFunc(slices.Clone(log), func(e lineage.Event) bool {
		return e.Type != eventType || session != "" && e.Session != session
	})
}

// queued waits until n calls of a tree have begun to wait for a place.
func (s *served) queued(t *testing.T, root string, n int) {
	t.Helper()
	within(t, patience, fmt.Sprintf("%d calls wait", n), func() bool {
		return len(told(s.log(t, root), lineage.EventQueued, "")) >= n
	})
}

// waited waits until n calls to an agent have left the line for a place.
func (s *served) waited(t *testing.T, agent string, n int) {
	t.Helper()
	within(t, patience, fmt.Sprintf("%d calls have waited", n), func() bool {
		_, page := get(t, "http://"+s.Admin+"/metrics")
		return strings.Contains(page, fmt.Sprintf("a2a_sidecar_queue_duration_seconds_count{agent=%q} %d\n", agent, n))
	})
}
