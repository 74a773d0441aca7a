package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// The conformance cases that need processes to be killed.
const (
	case43 = "43: kill -9 of a sidecar: main and suspended survive, its active ones fail, and their parent is told once"
	case44 = "44: a second replica lives: its sessions are untouched"
	case65 = "65: Redis is down: traffic passes, recording is marked degraded, capped calls are refused"
)

// conformance runs the cases. An error means that one could not be run at all.
func (l *lab) conformance(ctx context.Context) ([]verdict, error) {
	began := time.Now()
	down, err := l.storeDown(ctx)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", case65, err)
	}
	all := []verdict{{case65, time.Since(began), down}}
	began = time.Now()
	own, others, err := l.sidecarKilled(ctx)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", case43, err)
	}
	return append(all, verdict{case43, time.Since(began), own}, verdict{case44, time.Since(began), others}), nil
}

// through returns a caller that calls by one sidecar.
func (w *world) through(s *sidecar) *caller {
	return newCaller([]*sidecar{s}, w.tally, w.ledger, rand.New(rand.NewPCG(1, 2)))
}

// sidecarKilled is cases 43 and 44, each with what is wrong.
func (l *lab) sidecarKilled(ctx context.Context) (own, others, err error) {
	w, err := l.newWorld(ctx, "cases-kill", worldRedis,
		settings{sidecars: 2, onStoreDown: "refuse", ttl: 5 * time.Minute, queue: 3 * time.Second}, rand.New(rand.NewPCG(l.seed, 43)))
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return nil, nil, err
	}
	dies, lives := w.sidecars[0], w.sidecars[1]
	root, user := uuid.NewString(), "user"
	asked := letter{Job: job{Agent: agentAsker, Way: send}, Message: uuid.NewString(), Root: root, Caller: root, User: user}
	waiting := w.through(dies).attempt(ctx, asked, "", dies)
	if waiting.result != waits {
		wrong := fmt.Errorf("a call that is to wait for an input: %s %s", waiting.result, waiting.reason)
		return wrong, wrong, nil
	}
	hold := func(s *sidecar, agent string) <-chan outcome {
		ended := make(chan outcome, 1)
		go func() { ended <- w.through(s).attempt(ctx, w.held(root, user, agent), "", s) }()
		return ended
	}
	isolated, shared := hold(dies, agentWorker), hold(dies, agentWriter) // the one ends with its run, the other would outlive it
	another := hold(lives, agentScarce)
	for _, agent := range []string{agentWorker, agentWriter, agentScarce} {
		if n := w.awaitWork(ctx, agent, 1); n != 1 {
			return nil, nil, fmt.Errorf("%d calls are at work at %s", n, agent)
		}
	}
	before, err := w.awaitStill(ctx, lives, root)
	if err != nil {
		return nil, nil, err
	}
	if err := dies.kill(); err != nil {
		return nil, nil, err
	}
	after, err := w.awaitLost(ctx, lives, root, agentWorker, agentWriter)
	if err != nil {
		return nil, nil, err
	}
	own = errors.Join(
		is(after[""], lineage.Active, ""), is(after[agentAsker], lineage.Suspended, ""),
		is(after[agentWorker], lineage.Failed, lineage.ReasonLost), is(after[agentWriter], lineage.Failed, lineage.ReasonLost),
	)
	others = is(after[agentScarce], lineage.Active, "")
	if was, now := before[agentScarce], after[agentScarce]; was.Version != now.Version {
		others = errors.Join(others, fmt.Errorf("the session of the living replica changed: version %d, then %d", was.Version, now.Version))
	}
	w.gate.open()
	for _, cut := range []<-chan outcome{isolated, shared} {
		if o := <-cut; o.result != broken {
			own = errors.Join(own, fmt.Errorf("a call through the sidecar that was killed: %s %s", o.result, o.reason))
		}
	}
	if o := <-another; o.result != answered {
		others = errors.Join(others, fmt.Errorf("the living replica's call: %s %s", o.result, o.reason))
	}
	// What survived goes on, by the other sidecar.
	asked.Message = uuid.NewString()
	if o := w.through(lives).attempt(ctx, asked, waiting.task, lives); o.result != answered {
		own = errors.Join(own, fmt.Errorf("an answer to the session that waits: %s %s", o.result, o.reason))
	}
	last, err := w.awaitEnd(ctx, lives, root, agentScarce, agentAsker)
	if err != nil {
		return nil, nil, err
	}
	own = errors.Join(own, is(last[agentAsker], lineage.Completed, ""), w.toldOnce(ctx, lives, root, last[agentWorker].ID, last[agentWriter].ID))
	return own, errors.Join(others, is(last[agentScarce], lineage.Completed, "")), nil
}

// held is a message whose work lasts until the gate is opened.
func (w *world) held(root, user, agent string) letter {
	return letter{Job: job{Agent: agent, Way: stream, Hold: true}, Message: uuid.NewString(), Root: root, Caller: root, User: user}
}

// is returns an error if the session is not in that state.
func is(s lineage.Session, state lineage.State, reason string) error {
	if s.State != state || s.Reason != reason {
		return fmt.Errorf("the session at %q (%s) is %q %q, want %q %q", s.Agent, s.Kind, s.State, s.Reason, state, reason)
	}
	return nil
}

// sessionsOf returns the sessions of a tree by their agents, main under "".
func (w *world) sessionsOf(ctx context.Context, by *sidecar, root string) (map[string]lineage.Session, error) {
	api, err := by.api()
	if err != nil {
		return nil, err
	}
	tree, err := api.Tree(ctx, root)
	if err != nil {
		return nil, err
	}
	found := map[string]lineage.Session{}
	for _, s := range tree.Sessions {
		if s.Kind == lineage.Main {
			found[""] = s.Session
			continue
		}
		found[s.Agent] = s.Session
	}
	return found, nil
}

// awaitStill returns the sessions of a tree once the record is not behind any
// more: what the agents say reaches it behind the callers' backs.
func (w *world) awaitStill(ctx context.Context, by *sidecar, root string) (map[string]lineage.Session, error) {
	patience, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var last map[string]lineage.Session
	for {
		found, err := w.sessionsOf(ctx, by, root)
		if err != nil {
			return nil, err
		}
		still := len(last) == len(found)
		for agent, s := range found {
			still = still && s.Version == last[agent].Version && (len(s.Runs) == 0 || s.Runs[0].TaskID != "")
		}
		if still {
			return found, nil
		}
		last = found
		if !pause(patience, 500*time.Millisecond) {
			return nil, fmt.Errorf("the record of tree %s does not come to rest", root)
		}
	}
}

// awaitLost waits until the sessions at some agents have failed, for as long as
// a lease and a sweep take.
func (w *world) awaitLost(ctx context.Context, by *sidecar, root string, agents ...string) (map[string]lineage.Session, error) {
	return w.awaitSessions(ctx, by, root, lease+10*time.Second, agents)
}

// awaitEnd waits until the sessions at some agents have ended.
func (w *world) awaitEnd(ctx context.Context, by *sidecar, root string, agents ...string) (map[string]lineage.Session, error) {
	return w.awaitSessions(ctx, by, root, 10*time.Second, agents)
}

// awaitSessions returns the sessions as they are when those at some agents have
// ended, or when the time is over.
func (w *world) awaitSessions(ctx context.Context, by *sidecar, root string, most time.Duration, agents []string) (map[string]lineage.Session, error) {
	patience, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		found, err := w.sessionsOf(ctx, by, root)
		if err != nil {
			return nil, err
		}
		over := true
		for _, agent := range agents {
			over = over && found[agent].State.Terminal()
		}
		if over || !pause(patience, 100*time.Millisecond) {
			return found, nil
		}
	}
}

// toldOnce returns an error if the ends of sessions do not stand in the log
// once each, and once more for their parent.
func (w *world) toldOnce(ctx context.Context, by *sidecar, root string, ids ...string) error {
	api, err := by.api()
	if err != nil {
		return err
	}
	a, err := readAccount(ctx, api, root)
	if err != nil {
		return err
	}
	var wrong error
	for _, id := range ids {
		ended, told := 0, 0
		for _, e := range a.log {
			var p sessions.ResultPayload
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
			switch {
			case e.Type == lineage.EventFailed && e.Session == id:
				ended++
			case e.Type == lineage.EventResult && p.Session == id:
				told++
			}
		}
		if ended != 1 || told != 1 {
			wrong = errors.Join(wrong, fmt.Errorf("session %s failed %d times, and its parent was told %d times", id, ended, told))
		}
	}
	return wrong
}

// storeDown is case 65, with what is wrong.
func (l *lab) storeDown(ctx context.Context) (wrong, err error) {
	w, err := l.newWorld(ctx, "cases-down", worldRedis,
		settings{sidecars: 1, onStoreDown: "local", ttl: 5 * time.Minute, queue: time.Second}, rand.New(rand.NewPCG(l.seed, 65)))
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return nil, err
	}
	s := w.sidecars[0]
	c := w.through(s)
	say := func(format string, args ...any) { wrong = errors.Join(wrong, fmt.Errorf(format, args...)) }
	plain := func(when string) (root string) {
		root = uuid.NewString()
		if o := c.call(ctx, root, root, "user", job{Agent: agentWorker, Way: send}); o.result != answered {
			say("a call %s: %s %s", when, o.result, o.reason)
		}
		return root
	}
	plain("before")
	w.store.stop()
	plain("while Redis is down")
	if ready, err := readiness(ctx, s); err != nil {
		return nil, err
	} else if !ready.Ready || len(ready.Reasons) == 0 {
		say("/readyz while Redis is down: %+v, want ready, and a reason why the record is degraded", ready)
	}
	root := uuid.NewString()
	held := make(chan outcome, maxChildren)
	for range maxChildren {
		go func() { held <- c.attempt(ctx, w.held(root, "user", agentWorker), "", s) }()
	}
	if n := w.awaitWork(ctx, agentWorker, maxChildren); n != maxChildren {
		say("%d calls of one parent were admitted, want %d", n, maxChildren)
	}
	if o := c.attempt(ctx, w.held(root, "user", agentWorker), "", s); o.result != refused || o.reason != string(lineage.ChildrenLimit) {
		say("one call more than %d: %s %s, want %s %s", maxChildren, o.result, o.reason, refused, lineage.ChildrenLimit)
	}
	w.gate.open()
	for range maxChildren {
		if o := <-held; o.result != answered {
			say("a held call: %s %s", o.result, o.reason)
		}
	}
	if err := w.store.begin(); err != nil {
		return nil, err
	}
	if ready, err := awaitSound(ctx, s); err != nil || !ready.Ready || len(ready.Reasons) > 0 {
		say("/readyz when Redis is back: %+v, %v", ready, err)
	}
	root = plain("when Redis is back")
	if found, err := w.sessionsOf(ctx, s, root); err != nil || len(found) != 2 {
		say("the record of that call: %d sessions, %v, want main and one more", len(found), err)
	}
	return wrong, nil
}

// readiness asks /readyz, whatever its status.
func readiness(ctx context.Context, s *sidecar) (r adminapi.Readiness, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.adminURL()+"/readyz", http.NoBody)
	if err != nil {
		return r, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, fmt.Errorf("asking /readyz: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		return r, fmt.Errorf("reading /readyz: %w", err)
	}
	return r, nil
}

// awaitSound waits until /readyz has nothing to complain of.
func awaitSound(ctx context.Context, s *sidecar) (r adminapi.Readiness, err error) {
	patience, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		r, err = readiness(ctx, s)
		if err == nil && r.Ready && len(r.Reasons) == 0 || !pause(patience, 50*time.Millisecond) {
			return r, err
		}
	}
}
