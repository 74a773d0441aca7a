package sessions_test

import (
	"cmp"
	"testing"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// isolating, agentMode and passthrough change the agent that calls go to.
func (w *world) isolating() *world {
	w.agent.Isolate = true
	return w
}

func (w *world) mode(m contextid.Mode) *world {
	w.agent.ContextIDs = m
	return w
}

func TestIsolatedCallsGetFreshContexts(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		seen := map[string]bool{}
		for _, context := range []string{"", "", "mine", "mine", "root"} {
			run := w.begin(message{root: "root", context: context})
			id, edit := run.ContextID()
			if u, err := uuid.Parse(id); err != nil || u.Version() != 7 || !edit || seen[id] {
				t.Errorf("context of a call that names %q = %q (edit %v), want a fresh UUIDv7", context, id, edit)
			}
			seen[id] = true
			if s := w.session(run); !s.Isolated || s.ContextID != id {
				t.Errorf("session has isolated %v, context %q, want true, %q", s.Isolated, s.ContextID, id)
			}
		}
		same(t, "crossings of isolated calls", types(w.events("root", lineage.EventCrossed)), []string(nil))
	})
}

func TestSharedCallsGetTheStableContext(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		first := w.begin(message{root: "root", principal: "ann"})
		id, edit := first.ContextID()
		if u, err := uuid.Parse(id); err != nil || u.Version() != 8 || !edit {
			t.Errorf("ContextID() = %q, %v, want a derived UUIDv8 that replaces what was sent", id, edit)
		}
		w.complete(first)
		again := w.begin(message{root: "root", principal: "ann"})
		w.sent("second call", again, id, true)
		if a, b := first.Lineage().Session, again.Lineage().Session; a != b {
			t.Errorf("sessions %s and %s, want one", a, b)
		}
		other := *w.agent
		other.Name = "other"
		for what, m := range map[string]message{
			"another tree":      {root: "root2", principal: "ann"},
			"another principal": {root: "root3", principal: "bob"},
			"another agent":     {root: "root", principal: "ann", agent: &other},
		} {
			if got := contextOf(w.begin(m)); got == id {
				t.Errorf("%s has the same context %s", what, id)
			}
		}
	})
}

// Another replica of the same store, and this one after a restart, derive the same.
func TestReplicasDeriveTheSame(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		id := contextOf(w.begin(message{root: "root"}))
		other := newWorld(t, w.store, func(o *sessions.Options) { o.Owner = "sidecar-2" })
		other.calls = 100
		other.sent("at the other replica", other.begin(message{root: "root"}), id, true)
		keyed := newWorld(t, w.store, func(o *sessions.Options) { o.Secret = []byte("0123456789abcdef0123456789abcdef") })
		keyed.calls = 200
		if got := contextOf(keyed.begin(message{root: "root"})); got == id {
			t.Errorf("with a key of its own a sidecar derives the same %s", got)
		}
	})
}

func TestNamedContextIsKept(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		first := w.begin(message{root: "root", context: "mine"})
		w.sent("first", first, "mine", false)
		w.complete(first)
		again := w.begin(message{root: "root", context: "mine"})
		w.sent("again", again, "mine", false)
		if a, b := first.Lineage().Session, again.Lineage().Session; a != b {
			t.Errorf("sessions %s and %s, want one", a, b)
		}
	})
}

func TestForeignContextIsReplaced(t *testing.T) {
	t.Parallel()
	for _, mode := range []contextid.Mode{contextid.Sidecar, contextid.Agent} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.mode(mode)
				w.begin(message{root: "root", principal: "ann", context: "mine"})
				for _, m := range []message{
					{root: "root2", principal: "ann", context: "mine"},
					{root: "root3", principal: "bob", context: "mine"},
				} {
					run := w.begin(m)
					id, edit := run.ContextID()
					switch {
					case id == "mine" || !edit:
						t.Errorf("in %s ContextID() = %q, %v, want another", m.root, id, edit)
					case mode == contextid.Agent && id != "":
						t.Errorf("in %s ContextID() = %q, want none: the agent makes it", m.root, id)
					case mode == contextid.Sidecar && id == "":
						t.Errorf("in %s ContextID() is empty, want the stable one", m.root)
					}
					crossed := w.events(m.root, lineage.EventCrossed)
					if len(crossed) != 1 || payload(t, crossed[0])["contextId"] != "mine" {
						t.Errorf("context.crossed in %s = %v, want one that names it", m.root, crossed)
					}
				}
				same(t, "crossings in the owner's tree", types(w.events("root", lineage.EventCrossed)), []string(nil))
			})
		})
	}
}

// Who names another user's context, and says nothing of a tree, gets a context
// of their own and does not learn whose it was.
func TestForeignContextOutsideOfATree(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.begin(message{root: "root", principal: "ann", context: "mine"})
		run := w.begin(message{principal: "bob", context: "mine"})
		id, edit := run.ContextID()
		root := run.Lineage().Root
		if id == "" || id == "mine" || !edit || root == "root" {
			t.Errorf("ContextID() = %q, %v in tree %s, want another in bob's own", id, edit, root)
		}
		same(t, "crossings", types(w.events(root, lineage.EventCrossed)), []string{lineage.EventCrossed})
	})
}

// An isolated call that names a known context is a sibling of that session.
func TestSiblingOfTheNamedContext(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		first := w.begin(message{root: "root", parent: "own", context: "known"})
		w.isolating()
		run := w.begin(message{context: "known"})
		if got, want := w.session(run).Parent, w.session(first).Parent; got != want || run.Lineage().Parent != "own" {
			t.Errorf("parent = %s (context %q), want %s, as its sibling has", got, run.Lineage().Parent, want)
		}
	})
}

func TestPassthroughTouchesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.mode(contextid.Passthrough)
		w.sent("none named", w.begin(message{root: "root"}), "", false)
		w.sent("one named", w.begin(message{root: "root", context: "mine"}), "mine", false)
		w.sent("another tree's", w.begin(message{root: "root2", context: "mine"}), "mine", false)
		same(t, "crossings", types(w.events("root2", lineage.EventCrossed)), []string(nil))
	})
}

func TestAgentModeBindsWhatTheReplyNames(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.mode(contextid.Agent)
		first := w.begin(message{root: "root"})
		w.sent("first", first, "", true)
		w.say(first, `{"task":{"id":"t1","contextId":"theirs","status":{"state":"TASK_STATE_COMPLETED"}}}`)
		w.end(first, sessions.Answered)
		if got := w.session(first).ContextID; got != "theirs" {
			t.Errorf("session's context = %q, want theirs", got)
		}
		second := w.begin(message{root: "root"})
		w.sent("second", second, "theirs", true)
		if a, b := first.Lineage().Session, second.Lineage().Session; a != b {
			t.Errorf("sessions %s and %s, want one", a, b)
		}
		w.isolating()
		w.sent("isolated", w.begin(message{root: "root", context: "theirs"}), "", true)
	})
}

func TestReplyWithAnotherContextIsAnAlias(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		first := w.begin(message{root: "root"})
		id := contextOf(first)
		w.say(first, `{"task":{"id":"t1","contextId":"theirs","status":{"state":"TASK_STATE_COMPLETED"}}}`)
		// Named before the store has heard of it.
		alias := w.begin(message{root: "root", context: "theirs"})
		w.sent("by its alias", alias, "theirs", false)
		w.end(first, sessions.Answered)
		if a, b := first.Lineage().Session, alias.Lineage().Session; a != b {
			t.Errorf("sessions %s and %s, want one", a, b)
		}
		if got := w.session(first).ContextID; got != id {
			t.Errorf("session's context = %q, want its own %q still", got, id)
		}
		w.sent("in another tree", w.begin(message{root: "root2", context: "theirs"}), contextid.Stable(w.secret(), "", "root2", "worker"), true)
	})
}

func (w *world) secret() []byte {
	w.Helper()
	key, err := w.store.Secret(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return key
}

func TestContextLearntOutsideOfATree(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		first := w.begin(message{principal: "ann"})
		w.sent("none named, tree unknown", first, "", true)
		root := first.Lineage().Root
		w.say(first, `{"message":{"messageId":"r","contextId":"theirs","parts":[]}}`)
		again := w.begin(message{principal: "ann", context: "theirs"}) // at once
		w.sent("what the reply named", again, "theirs", false)
		if got := again.Lineage(); got.Root != root || got.Session != first.Lineage().Session {
			t.Errorf("it runs in tree %s, session %s, want those of the first call: %s, %s", got.Root, got.Session, root, first.Lineage().Session)
		}
		w.end(first, sessions.Answered)
	})
}

func TestRetryGoesWhereTheFirstWent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"isolated": func(w *world) { w.isolating() },
		"shared":   func(*world) {},
		"kept":     func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				change(w)
				m := message{root: "root", id: "once"}
				if name == "kept" {
					m.context = "mine"
				}
				first := w.begin(m)
				open := w.begin(m)
				w.sent("retry while open", open, contextOf(first), true)
				w.complete(first)
				ended := w.begin(m)
				w.sent("retry after the end", ended, contextOf(first), true)
				m.context = "elsewhere" // the retry may name what it heard since
				w.sent("retry that names another", w.begin(m), contextOf(first), true)
				if n := len(w.tree("root")); n != 2 {
					t.Errorf("%d sessions in the tree, want 2: the root and one", n)
				}
				if n := len(w.session(first).Runs); n != 2 {
					t.Errorf("%d runs, want 2: the first, and the retry after its end", n)
				}
			})
		})
	}
}

func TestTaskGoesOn(t *testing.T) {
	t.Parallel()
	for name, isolate := range map[string]bool{"shared": false, "isolated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.agent.Isolate = isolate
				first := w.begin(message{root: "root", principal: "ann"})
				w.say(first, `{"task":{"id":"t1","contextId":"`+contextOf(first)+`","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`)
				w.end(first, sessions.Answered)
				w.stands(first, lineage.Suspended, lineage.Suspended, "")

				for what, m := range map[string]message{
					"with its context":        {root: "root", context: contextOf(first)},
					"by task alone":           {root: "root"},
					"without headers":         {context: contextOf(first)},
					"with nothing else":       {},
					"under another tree's":    {root: "elsewhere"},
					"with a wrong context":    {root: "root", context: "wrong"},
					"named after another one": {context: "wrong"},
				} {
					m.principal, m.task = "ann", "t1"
					run := w.begin(m)
					w.sent(what, run, cmp.Or(m.context, contextOf(first)), false)
					if got := run.Lineage(); got.Session != first.Lineage().Session || got.Root != "root" {
						t.Errorf("%s: goes on in session %s of %s, want %s of root", what, got.Session, got.Root, first.Lineage().Session)
					}
				}
				w.refused(message{root: "root", principal: "bob", task: "t1"}, lineage.ContextForbidden)
				w.refused(message{root: "bobs", principal: "bob", task: "t1"}, lineage.ContextForbidden)
				w.refused(message{task: "t1"}, lineage.ContextForbidden)
			})
		})
	}
}

func TestUnknownTaskIsLetPass(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root", task: "never seen", context: "theirs"})
		w.sent("unknown task", run, "theirs", false)
		if got := w.session(run); got.ContextID != "theirs" || got.Runs[0].TaskID != "never seen" {
			t.Errorf("session has context %q and task %q, want those of the message", got.ContextID, got.Runs[0].TaskID)
		}
		w.sent("without a context", w.begin(message{root: "root", task: "neither"}), "", false)
	})
}

func TestWhereACallComesFrom(t *testing.T) {
	t.Parallel()
	type place struct {
		root, parent string // parent: context of the parent session
		source       lineage.ParentSource
		catchAll     bool
	}
	annsRoot := uuid.NewSHA1(uuid.NewSHA1(uuid.NameSpaceOID, []byte(caught)), []byte("ann")).String()
	for name, tc := range map[string]struct {
		m    message
		want place
	}{
		"both headers":            {message{root: "r", parent: "p"}, place{"r", "p", lineage.FromHeader, false}},
		"both headers, one value": {message{root: "r", parent: "r"}, place{"r", "r", lineage.FromHeader, false}},
		"root header":             {message{root: "r"}, place{"r", "r", lineage.FromHeader, false}},
		"parent header":           {message{parent: "p"}, place{"p", "p", lineage.FromHeader, false}},
		"parent header of a known session": {
			message{parent: "own"}, place{"grown", "own", lineage.FromHeader, false},
		},
		"sender's session":             {message{sender: "s"}, place{"s", "s", lineage.FromHeader, false}},
		"headers before the sender's":  {message{root: "r", sender: "s"}, place{"r", "r", lineage.FromHeader, false}},
		"sender's that cannot be one":  {message{sender: "a\nb"}, place{annsRoot, annsRoot, lineage.FromNone, true}},
		"known context":                {message{context: "known"}, place{"grown", "own", lineage.FromNone, false}},
		"unknown context":              {message{context: "new"}, place{"new", "new", lineage.FromNone, false}},
		"nothing":                      {message{}, place{annsRoot, annsRoot, lineage.FromNone, true}},
		"headers before the context's": {message{root: "r", context: "new"}, place{"r", "r", lineage.FromHeader, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				// In tree grown, this agent's own session is "own", and has called "known".
				up := &sessions.Agent{Name: self, Kind: lineage.Branch, ContextIDs: contextid.Sidecar}
				w.complete(w.begin(message{agent: up, principal: "ann", root: "grown", context: "own"}))
				w.complete(w.begin(message{principal: "ann", root: "grown", parent: "own", context: "known"}))

				tc.m.principal = "ann"
				run := w.begin(tc.m)
				got, s := run.Lineage(), w.session(run)
				if got.Root != tc.want.root || got.Parent != tc.want.parent {
					t.Errorf("Lineage() = root %q, parent %q, want %q, %q", got.Root, got.Parent, tc.want.root, tc.want.parent)
				}
				if name != "known context" && s.ParentSource != tc.want.source {
					t.Errorf("parent source = %q, want %q", s.ParentSource, tc.want.source)
				}
				if got.Depth != s.Depth || got.Branch != s.Branch || got.Session != s.ID {
					t.Errorf("Lineage() = %+v, want the session's own: %s, %d, %s", got, s.ID, s.Depth, s.Branch)
				}
				tree, err := w.store.Tree(t.Context(), tc.want.root)
				if err != nil || tree.CatchAll != tc.want.catchAll {
					t.Errorf("tree %s catches all: %v (%v), want %v", tc.want.root, tree.CatchAll, err, tc.want.catchAll)
				}
			})
		})
	}
}

func TestUnknownCallerStandsAsDeepAsItSays(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "r", parent: "p", depth: 2})
		if got := run.Lineage().Depth; got != 3 {
			t.Errorf("Depth = %d, want 3: below a caller at 2", got)
		}
		w.isolating().refused(message{root: "r", parent: "q", depth: 3}, lineage.DepthLimit)
	})
}

func TestCatchAllIsOnesOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		ann, bob := w.begin(message{principal: "ann"}).Lineage().Root, w.begin(message{principal: "bob"}).Lineage().Root
		if ann == bob {
			t.Errorf("two principals share the catch-all tree %s", ann)
		}
		if again := w.begin(message{principal: "ann"}).Lineage().Root; again != ann {
			t.Errorf("catch-all tree = %s, want %s again", again, ann)
		}
	})
}

func TestForeignTreeIsRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.begin(message{root: "anns", principal: "ann"})
		w.refused(message{root: "anns", principal: "bob"}, lineage.ContextForbidden)
		w.refused(message{parent: "anns", principal: "bob"}, lineage.ContextForbidden)
		if n := len(w.tree("anns")); n != 2 {
			t.Errorf("%d sessions, want 2: a refused call leaves nothing", n)
		}
	})
}

// A guess that turns out to be another user's tree must neither tell of that
// tree nor hand out a context that its owner named.
func TestForeignTreeGuessedIsLeftAlone(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.begin(message{root: "anns", principal: "ann"})
		run := w.begin(message{context: "anns", principal: "bob"})
		if id, edit := run.ContextID(); id == "anns" || id == "" || !edit {
			t.Errorf("ContextID() = %q, %v, want a stable one of bob's own", id, edit)
		}
		root := run.Lineage().Root
		if root == "anns" {
			t.Fatal("the call runs in ann's tree")
		}
		crossed := w.events(root, lineage.EventCrossed)
		if len(crossed) != 1 || payload(t, crossed[0])["contextId"] != "anns" {
			t.Errorf("context.crossed = %v, want one that names it", crossed)
		}
		// Nothing of the context was kept for bob.
		w.sent("ann's own use of it", w.begin(message{root: "anns", principal: "ann", context: "anns"}), "anns", false)
	})
}

func TestRefusedCallGivesItsClaimBack(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.agent.Limits.MaxFanOut, w.agent.Limits.QueueTimeout = 1, 0
		w.begin(message{root: "full"})
		w.refused(message{root: "full", context: "wanted"}, lineage.FanOutLimit)
		w.sent("another tree's use of it", w.begin(message{root: "other", context: "wanted"}), "wanted", false)

		// What has a session stays its tree's.
		w.complete(w.begin(message{root: "third", context: "held"}))
		w.begin(message{root: "third"})
		w.refused(message{root: "third", context: "held"}, lineage.FanOutLimit)
		if got := contextOf(w.begin(message{root: "fourth", context: "held"})); got == "held" {
			t.Error("a refused call gave away a context that has a session")
		}
	})
}

// A message that names a task is never touched, so it may not name another
// user's context either, whatever the task.
func TestTaskOpensNobodysContext(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		hers := w.begin(message{root: "anns", principal: "ann", context: "hers"})
		w.end(hers, sessions.Unreachable)
		his := w.begin(message{root: "bobs", principal: "bob"})
		w.say(his, task(asks))
		w.end(his, sessions.Answered)

		w.refused(message{root: "bobs", principal: "bob", task: "unheard-of", context: "hers"}, lineage.ContextForbidden)
		w.refused(message{principal: "bob", task: "unheard-of", context: "hers"}, lineage.ContextForbidden)
		w.refused(message{root: "bobs", principal: "bob", task: "t1", context: "hers"}, lineage.ContextForbidden)

		// Of one user's two trees, a context stays in its own.
		run := w.begin(message{root: "another", principal: "ann", task: "unheard-of", context: "hers"})
		if got := run.Lineage().Root; got != "anns" {
			t.Errorf("a call in ann's context goes on in tree %s, want anns", got)
		}
		w.end(run, sessions.Unreachable)
	})
}
