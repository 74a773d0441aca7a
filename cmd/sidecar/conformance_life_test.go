package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// atOnce is how soon an agent must hear that it is to stop. Anything near the
// grace, which is seconds, would be too late.
const atOnce = 1500 * time.Millisecond

// planned is a planner at work for its coordinator, in a session that ends with
// this call.
type planned struct {
	*job
	call *call
}

func plan(t *testing.T, c *a2aclient.Client, planner *actor, from origin) planned {
	t.Helper()
	p := stream(t, c, from, userSays("plan it"))
	next(t, "the planner begins", p.begun)
	return planned{next(t, "the planner works", planner.jobs), p}
}

// complete ends the planner's session.
func (p planned) complete(t *testing.T) {
	t.Helper()
	p.end(a2a.TaskStateCompleted, "planned")
	p.call.finish(t, a2a.TaskStateCompleted)
}

// Case 36: calls that race the end of their caller's session are refused, or
// admitted and then canceled. None is left alone.
func TestConformance36SpawnRacesParentsEnd(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		planner, worker := cast(t, "planner"), cast(t, "worker")
		s := st.serve(t, settings("", planner.with("isolateSessions: true"), worker.with("isolateSessions: true")), "coordinator", "planner")
		front, own := dial(t, s[0], "planner"), dial(t, s[1], "worker")
		const rounds, kids = 24, 4
		refused, canceled := 0, 0
		for i := range rounds {
			p := plan(t, front, planner, origin{root: fmt.Sprint("race-", i)})
			calls := make([]*call, kids)
			var race sync.WaitGroup
			call := func() {
				for k := range calls {
					race.Go(func() { calls[k] = stream(t, own, p.origin(), userSays("go")) })
				}
			}
			switch i { // the first two rounds are no race: they show both ends of it
			case 0:
				p.complete(t)
				s[1].comes(t, p.session(), lineage.Completed, "") // known to the other sidecar, too
				call()
			case 1:
				call()
				for range calls {
					next(t, "the worker works", worker.jobs)
				}
				p.complete(t)
			default:
				call()
				p.complete(t)
			}
			race.Wait()
			for _, c := range calls {
				refusal := c.refusal(t)
				switch {
				case refusal != nil && strings.Contains(refusal.Message, "has ended or is being ended"):
					refused++
				case c.err == nil && c.state == a2a.TaskStateCanceled:
					canceled++
					if late := c.ended.Sub(p.call.ended); late > atOnce {
						t.Errorf("round %d: a call was canceled %s after its parent's end, want at once", i, late)
					}
				default:
					t.Errorf("round %d: a call ended as %q, %v; want it refused or canceled", i, c.state, c.err)
				}
			}
			if i == 0 && refused != kids || i == 1 && canceled != kids {
				t.Errorf("after round %d, %d calls were refused and %d canceled; want those after the end refused, those before it canceled", i, refused, canceled)
			}
		}
		t.Logf("%d calls refused, %d canceled", refused, canceled)
		within(t, patience, "nothing is at work", func() bool { return worker.busy.Load() == 0 })
		made := 0
		for i := range rounds {
			root := fmt.Sprint("race-", i)
			within(t, patience, "nothing lives in "+root, func() bool {
				tree, err := s[0].client(t).Tree(t.Context(), root)
				if err != nil {
					t.Fatal(err)
				}
				return tree.Counts.Live == 0
			})
			tree, err := s[0].client(t).Tree(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			for _, session := range tree.Sessions[2:] {
				made++
				if session.State != lineage.Failed || session.Reason != lineage.ReasonCanceled {
					t.Errorf("%s: session %s is %s %s, want failed canceled", root, session.Branch, session.State, session.Reason)
				}
			}
		}
		if made != canceled {
			t.Errorf("%d sessions were made for the %d calls that were canceled", made, canceled)
		}
	})
}

// Case 37: when a session ends, the agents at work below it are asked to stop at
// once and side by side, each with its own caller's credentials; what is still
// at work when the grace is over is cut off.
func TestConformance37ParentsEndStopsChildren(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		const kids, grace = 11, 2 * time.Second
		planner, worker := cast(t, "planner"), cast(t, "worker", deaf)
		s := st.serve(t, settings("maxChildren: 16, grace: 2s", planner.with("isolateSessions: true"), worker.with("isolateSessions: true")), "coordinator", "planner")
		own := dial(t, s[1], "worker")
		p := plan(t, dial(t, s[0], "planner"), planner, origin{root: "chat", user: "alice"})
		var calls []*call
		for i := range kids {
			from := p.origin()
			from.token = fmt.Sprint("Bearer kid-", i)
			calls = append(calls, stream(t, own, from, userSays("go")))
			next(t, "the worker begins", calls[i].begun)
		}
		// Of a call whose answer comes as a whole, nobody but the agent knows the task.
		calls = append(calls, block(t, own, p.origin(), userSays("go")))
		jobs := map[a2a.TaskID]*job{}
		for range calls {
			j := next(t, "the worker works", worker.jobs)
			jobs[j.TaskID] = j
		}
		p.complete(t)
		ended := p.call.ended
		for range kids {
			stop := next(t, "the worker is asked to stop", worker.stops)
			if late := stop.came.Sub(ended); late > atOnce {
				t.Errorf("a worker was asked to stop %s after its parent's end, want at once", late)
			}
			j := jobs[stop.TaskID]
			if got, want := stop.Header.Get("Authorization"), j.Header.Get("Authorization"); got != want {
				t.Errorf("a worker was asked to stop by %q, want by its own caller, %q", got, want)
			}
			if got := stop.Header.Get("x-user-id"); got != "alice" {
				t.Errorf("a worker was asked to stop for user %q, want alice", got)
			}
		}
		if n := worker.busy.Load(); n != kids+1 {
			t.Errorf("%d workers are at work in the grace, want %d", n, kids+1)
		}
		for _, from := range []origin{p.origin(), jobs[calls[0].task].origin()} {
			c := stream(t, own, from, userSays("one more"))
			if refusal := c.refusal(t); refusal == nil || !strings.Contains(refusal.Message, "has ended or is being ended") {
				t.Errorf("a call out of a session that has ended, or is about to, got %v; want a refusal", c.err)
			}
		}
		for _, c := range calls {
			next(t, "the call is cut off", c.done)
			if took := c.ended.Sub(ended); took < grace-atOnce/2 || took > grace+2*atOnce {
				t.Errorf("a call was cut off %s after its parent's end, want %s", took, grace)
			}
		}
		for _, c := range calls[:kids] {
			if c.err == nil {
				t.Errorf("the stream of task %s ended well (%s), want it broken off", c.task, c.state)
			}
		}
		if refusal := calls[kids].refusal(t); refusal == nil || !strings.Contains(refusal.Message, "its parent has ended") {
			t.Errorf("the call that was cut off before its answer got %v, want to hear that its parent has ended", calls[kids].err)
		}
		for _, j := range jobs {
			next(t, "the connection is closed", j.cut)
			session := s[0].comes(t, j.session(), lineage.Failed, lineage.ReasonOrphaned)
			if r := session.Runs[0]; r.State != lineage.Failed || r.Reason != lineage.ReasonOrphaned {
				t.Errorf("run of %s is %s %s, want failed orphaned", session.Branch, r.State, r.Reason)
			}
		}
		log := s[0].log(t, "chat")
		for _, j := range jobs {
			asked, forced := told(log, lineage.EventCancel, j.session()), told(log, lineage.EventFailed, j.session())
			if len(asked) != 1 || len(forced) != 1 {
				t.Fatalf("session %s was asked to stop %d times and failed %d times, want once each", j.session(), len(asked), len(forced))
			}
			if took := forced[0].Time.Sub(asked[0].Time); took < grace || took > grace+2*atOnce {
				t.Errorf("by the log, the grace was %s, want %s", took, grace)
			}
		}
		if got := len(told(log, lineage.EventResult, p.session())); got != kids+1 {
			t.Errorf("the parent was told of %d ends, want %d", got, kids+1)
		}
	})
}

// Without a grace, what is at work is cut off then and there.
func TestConformanceNoGrace(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		planner, worker := cast(t, "planner"), cast(t, "worker", deaf)
		s := st.serve(t, settings("grace: 0s", planner.with("isolateSessions: true"), worker.with("isolateSessions: true")), "coordinator", "planner")
		p := plan(t, dial(t, s[0], "planner"), planner, origin{root: "chat"})
		c := stream(t, dial(t, s[1], "worker"), p.origin(), userSays("go"))
		j := next(t, "the worker works", worker.jobs)
		next(t, "the worker begins", c.begun)
		p.complete(t)
		next(t, "the call is cut off", c.done)
		if took := c.ended.Sub(p.call.ended); c.err == nil || took > 2*atOnce {
			t.Errorf("the call ended %s after its parent's end with %v, want it cut off at once", took, c.err)
		}
		s[0].comes(t, j.session(), lineage.Failed, lineage.ReasonOrphaned)
	})
}

// Case 38: what comes shortly before the end of the grace counts.
func TestConformance38ResultWithinGraceIsKept(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		planner, worker := cast(t, "planner"), cast(t, "worker", deaf)
		s := st.serve(t, settings("grace: 3s", planner.with("isolateSessions: true"), worker.with("isolateSessions: true")), "coordinator", "planner")
		p := plan(t, dial(t, s[0], "planner"), planner, origin{root: "chat"})
		c := stream(t, dial(t, s[1], "worker"), p.origin(), userSays("go"))
		next(t, "the worker begins", c.begun)
		j := next(t, "the worker works", worker.jobs)
		p.complete(t)
		next(t, "the worker is asked to stop", worker.stops)
		ending, err := s[0].client(t).Session(t.Context(), j.session())
		if err != nil {
			t.Fatal(err)
		}
		if ending.State != lineage.Active || ending.Ending != lineage.ReasonOrphaned || ending.Deadline == nil {
			t.Fatalf("in the grace the session is %s, ending %q, deadline %v; want active, orphaned, and a deadline", ending.State, ending.Ending, ending.Deadline)
		}
		within(t, patience, "the grace is almost over", func() bool { return time.Until(*ending.Deadline) < time.Second })
		j.end(a2a.TaskStateCompleted, "just in time")
		c.finish(t, a2a.TaskStateCompleted)
		session := s[0].comes(t, j.session(), lineage.Completed, "")
		if session.Result == nil || session.Result.Status != lineage.Completed || session.Result.Summary != "just in time" {
			t.Errorf("result = %+v, want the one that came in the grace", session.Result)
		}
		results := told(s[0].log(t, "chat"), lineage.EventResult, p.session())
		if len(results) != 1 {
			t.Fatalf("the parent was told of %d ends, want one", len(results))
		}
		got := payload[sessions.ResultPayload](t, results[0])
		if got.Session != j.session() || got.State != lineage.Completed || !strings.Contains(string(got.Result), "just in time") {
			t.Errorf("the parent was told %s, want the result that came in the grace", results[0].Payload)
		}
	})
}

func payload[T any](t *testing.T, e lineage.Event) T {
	t.Helper()
	var p T
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		t.Fatalf("payload %s of %s: %v", e.Payload, e.Type, err)
	}
	return p
}

// Case 39: an end goes all the way down at once, past children that work on;
// what nothing runs in ends then and there.
func TestConformance39EndReachesGrandchildren(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		planner, middle, leaf, notes := cast(t, "planner"), cast(t, "middle", deaf), cast(t, "leaf"), cast(t, "notes")
		s := st.serve(t, settings("", planner.with("isolateSessions: true"), middle.with("isolateSessions: true"),
			leaf.with("isolateSessions: true, kind: worker"), notes.with("isolateSessions: false")), "coordinator", "planner", "middle")
		p := plan(t, dial(t, s[0], "planner"), planner, origin{root: "chat"})
		noted := stream(t, dial(t, s[1], "notes"), p.origin(), userSays("note this"))
		idle := next(t, "the notes are at work", notes.jobs)
		idle.end(a2a.TaskStateCompleted, "noted")
		noted.finish(t, a2a.TaskStateCompleted)
		toMiddle := stream(t, dial(t, s[1], "middle"), p.origin(), userSays("go"))
		mid := next(t, "the middle works", middle.jobs)
		toLeaf := stream(t, dial(t, s[2], "leaf"), mid.origin(), userSays("go on"))
		low := next(t, "the leaf works", leaf.jobs)
		next(t, "the middle begins", toMiddle.begun)
		next(t, "the leaf begins", toLeaf.begun)

		p.complete(t)
		for _, a := range []*actor{middle, leaf} {
			if late := next(t, a.name+" is asked to stop", a.stops).came.Sub(p.call.ended); late > atOnce {
				t.Errorf("%s was asked to stop %s after the end, want at once", a.name, late)
			}
		}
		toLeaf.finish(t, a2a.TaskStateCanceled)
		s[0].comes(t, low.session(), lineage.Failed, lineage.ReasonCanceled)
		s[0].comes(t, idle.session(), lineage.Expired, lineage.ReasonParentEnded)
		if n := middle.busy.Load(); n != 1 {
			t.Errorf("the leaf was asked to stop when %d were at work above it, want 1", n)
		}
		mid.end(a2a.TaskStateCompleted, "late")
		toMiddle.finish(t, a2a.TaskStateCompleted)
		s[0].comes(t, mid.session(), lineage.Completed, "")
	})
}

// Case 41: a time that is over ends a session though nobody looks: one that is
// idle then and there, one at work by asking its agent, and then by force.
func TestConformance41TimeIsOver(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		const soon = 3 * time.Second
		worker, deafened := cast(t, "worker"), cast(t, "deafened", deaf)
		s := st.serve(t, settings("grace: 1s", worker.with("ttl: 1s"), deafened.with("ttl: 1s")), "coordinator")[0]
		toWorker := dial(t, s, "worker")
		done := stream(t, toWorker, origin{root: "idle"}, userSays("go"))
		idle := next(t, "the worker works", worker.jobs)
		idle.end(a2a.TaskStateCompleted, "done")
		done.finish(t, a2a.TaskStateCompleted)
		unheard, err := toWorker.SendMessage(origin{root: "unheard", token: "Bearer caller"}.attach(t.Context()), &a2a.SendMessageRequest{
			Message: userSays("go"), Config: &a2a.SendMessageConfig{ReturnImmediately: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		lonely := next(t, "the worker works", worker.jobs)
		forced := stream(t, dial(t, s, "deafened"), origin{root: "forced"}, userSays("go"))
		stuck := next(t, "the deafened one works", deafened.jobs)

		// Till here, and for as long as this waits, nobody asks the sidecar anything.
		asked := next(t, "the worker is asked to stop", worker.stops)
		if got := asked.came.Sub(lonely.came); got < time.Second/2 || got > soon {
			t.Errorf("the worker was asked to stop after %s, want about 1s", got)
		}
		if asked.TaskID != unheard.(*a2a.Task).ID || asked.Header.Get("Authorization") != "Bearer caller" {
			t.Errorf("task %s was asked to stop by %q, want %s by its caller", asked.TaskID, asked.Header.Get("Authorization"), unheard.(*a2a.Task).ID)
		}
		next(t, "the call is cut off", forced.done)
		if got := forced.ended.Sub(stuck.came); forced.err == nil || got < 3*time.Second/2 || got > soon+time.Second {
			t.Errorf("the deafened call ended after %s with %v, want it cut off after about 2s", got, forced.err)
		}

		s.comes(t, lonely.session(), lineage.Failed, lineage.ReasonCanceled)
		for root, j := range map[string]*job{"idle": idle, "forced": stuck} {
			s.comes(t, j.session(), lineage.Expired, "")
			log := s.log(t, root)
			ends := told(log, lineage.EventExpired, j.session())
			if len(ends) != 1 {
				t.Fatalf("the log of %s tells of %d ends, want one", root, len(ends))
			}
			if got := ends[0].Time.Sub(log[0].Time); got < time.Second || root == "idle" && got > soon {
				t.Errorf("%s: the session expired after %s, want about 1s, and the grace where it was at work", root, got)
			}
			notices := told(log, lineage.EventResult, log[0].Session)
			if len(notices) != 1 {
				t.Fatalf("%s: the parent was told of %d ends, want one", root, len(notices))
			}
			if got := payload[sessions.ResultPayload](t, notices[0]); got.Session != j.session() || got.State != lineage.Expired {
				t.Errorf("%s: the parent was told %s, want that the session expired", root, notices[0].Payload)
			}
		}
	})
}

// With onParentEnd: abandon a session goes on when its parent ends.
func TestConformanceAbandonedChildGoesOn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		planner, left, stopped := cast(t, "planner"), cast(t, "left"), cast(t, "stopped")
		s := st.serve(t, settings("", planner.with("isolateSessions: true"),
			left.with("isolateSessions: true, onParentEnd: abandon"), stopped.with("isolateSessions: true")), "coordinator", "planner", "left")
		p := plan(t, dial(t, s[0], "planner"), planner, origin{root: "chat"})
		toLeft := stream(t, dial(t, s[1], "left"), p.origin(), userSays("go"))
		goesOn := next(t, "the abandoned one works", left.jobs)
		toStopped := stream(t, dial(t, s[1], "stopped"), p.origin(), userSays("go"))
		next(t, "the other works", stopped.jobs)
		p.complete(t)
		toStopped.finish(t, a2a.TaskStateCanceled)

		// It may even call others.
		below := stream(t, dial(t, s[2], "stopped"), goesOn.origin(), userSays("go"))
		low := next(t, "the one below works", stopped.jobs)
		low.end(a2a.TaskStateCompleted, "below")
		below.finish(t, a2a.TaskStateCompleted)
		goesOn.end(a2a.TaskStateCompleted, "alone")
		toLeft.finish(t, a2a.TaskStateCompleted)
		session := s[0].comes(t, goesOn.session(), lineage.Completed, "")
		if session.Result == nil || session.Result.Summary != "alone" {
			t.Errorf("result = %+v, want that of the abandoned session", session.Result)
		}
		if n := len(left.stops); n != 0 {
			t.Errorf("the abandoned one was asked to stop %d times, want never", n)
		}
	})
}
