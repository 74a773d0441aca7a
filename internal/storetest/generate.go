package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// quantum is what the random clock goes by. No length of time that is asked
// for is a multiple of it, so nothing ever ends at the very instant of a step.
const quantum = 14 * time.Millisecond

// generator makes random steps that are likely to meet what is there. It looks
// at the model for that, and draws from few ids, so that they come again.
type generator struct {
	*rand.Rand
	model  *Model
	last   int                  // number of the last id
	limits lineage.Limits       // of this seed
	atOnce map[string]int       // maxConcurrent: an agent's own, as in a configuration
	sent   []sessions.Admission // granted or not
}

func newGenerator(seed uint64, model *Model) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), model: model}
	g.limits = lineage.Limits{
		MaxDepth: g.IntN(5), MaxChildren: g.IntN(4), MaxFanOut: g.IntN(5), MaxSessions: g.IntN(12), MaxVisits: g.IntN(3),
	}
	g.atOnce = map[string]int{"a": g.IntN(4), "b": g.IntN(6), "c": 0}
	return g
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) id(what string) string {
	g.last++
	return fmt.Sprintf("%s%04d", what, g.last) // ids of a kind sort as they are made
}

func (g *generator) length(quanta int) time.Duration {
	return time.Duration(1+g.IntN(quanta))*quantum + time.Millisecond
}

func (g *generator) root() string    { return pick(g, "r1", "r1", "r2", "r3") }
func (g *generator) agent() string   { return pick(g, "a", "b", "c") }
func (g *generator) context() string { return pick(g, "c1", "c2", "c3", "c4", "c5") }
func (g *generator) task() string    { return pick(g, "t1", "t2", "t3", "t4", "t5") }

func (g *generator) step() step {
	switch n := g.IntN(100); {
	case n < 12:
		most := 600
		switch {
		case g.chance(8):
			most = 300_000
		case g.chance(20):
			most = 5000 // past a grace, and not past all leases
		}
		return step{Advance: time.Duration(g.IntN(most)) * quantum}
	case n < 18:
		return g.renew()
	case n < 22:
		return step{Claim: g.claim()}
	case n < 25:
		return g.unclaim()
	case n < 28:
		return step{Settle: true}
	default:
		st := step{}
		for range pick(g, 1, 1, 1, 1, 2, 3, 6) {
			st.Ops = append(st.Ops, g.op())
		}
		return st
	}
}

func (g *generator) op() sessions.Op {
	if g.chance(45) || len(g.model.trees) == 0 {
		a := g.admission()
		g.sent = append(g.sent, *a)
		return sessions.Op{Admit: a}
	}
	if g.chance(15) {
		return sessions.Op{Change: g.change()}
	}
	return sessions.Op{Progress: g.progress()}
}

func (g *generator) admission() *sessions.Admission {
	root := g.root()
	a := &sessions.Admission{
		Root: root, Principal: "alice", CatchAll: root == "r3", Local: "coordinator",
		MainID: g.id("main"), RemoteID: g.id("remote"), SessionID: g.id("s"), RunID: g.id("run"), MessageID: g.id("m"),
		Agent: g.agent(), Kind: lineage.Branch,
		Inherit: pick(g, lineage.InheritFull, lineage.InheritFull, lineage.InheritSummary, lineage.InheritNone),
		Turn:    pick(g, "", "turn1", "turn2", "turn3"), TraceID: pick(g, "", "trace1"), Source: pick(g, lineage.FromHeader, lineage.FromNone),
		Owner: pick(g, "o1", "o2"), Lease: g.length(900), Sent: json.RawMessage(pick(g, `{}`, `{"text":"<é>","n":1.50}`)),
	}
	if g.chance(30) {
		a.Lease = g.length(8000) // longer than a grace
	}
	if g.chance(4) {
		a.Principal = "bob"
	}
	if g.chance(25) {
		a.Kind = lineage.Worker
	}
	if g.chance(30) {
		a.TTL = g.length(3000)
	}
	if g.chance(10) {
		a.Crossed = "theirs"
	}
	g.cap(a)
	g.caller(a)
	g.session(a)
	g.repeat(a)
	if g.chance(15) {
		a.Abandon = true
	}
	switch n := g.IntN(100); {
	case n < 15:
		g.ahead(a)
	case n < 35:
		a.Named = g.reserved(a.Root)
	}
	return a
}

// ahead makes of a call a request for a session: what is about the call means
// nothing then.
func (g *generator) ahead(a *sessions.Admission) {
	a.Ahead, a.Resolve, a.Isolated = true, sessions.ResolveNone, g.chance(60)
	a.ContextID = pick(g, g.id("ahead"), g.context())
	a.RequestID = pick(g, "", "q1", "q2", g.id("q"))
	if g.chance(40) {
		a.Summary = json.RawMessage(`{"text":"so far"}`)
	}
}

// reserved is a context that a call may name: sooner that of a session which
// waits for it.
func (g *generator) reserved(root string) string {
	if t := g.model.trees[root]; t != nil {
		for _, n := range t.nodes {
			if n.Reserved && g.chance(60) {
				return n.ContextID
			}
		}
	}
	return g.context()
}

func (g *generator) change() *sessions.Change {
	c := &sessions.Change{
		Root: g.root(), Session: "unknown", TraceID: pick(g, "", "trace3"),
		Verb: pick(g, lineage.VerbComplete, lineage.VerbFail, lineage.VerbSuspend, lineage.VerbSuspend, lineage.VerbResume,
			lineage.VerbResume, lineage.VerbCancel, lineage.VerbCancel),
	}
	if t := g.model.trees[c.Root]; t != nil && !g.chance(3) {
		n := g.goesOn(t)
		if late := g.late(t); late != nil && late.parent != nil && g.chance(50) {
			n, c.Verb = late.parent, lineage.VerbComplete
		}
		if n.parent == nil && g.chance(90) {
			c.Verb = lineage.VerbSuspend // which it does not take: with its end all would be over
		}
		c.Session = n.ID
	}
	if g.chance(30) {
		c.Reason = pick(g, "gave_up", lineage.ReasonLost)
	}
	if g.chance(30) {
		c.Result = json.RawMessage(fmt.Sprintf(`{"status":"completed","summary":"s%d"}`, g.IntN(9)))
	}
	return c
}

func (g *generator) cap(a *sessions.Admission) {
	l := &a.Limits
	l.MaxConcurrent = g.atOnce[a.Agent]
	if g.chance(60) {
		l.MaxDepth, l.MaxChildren = g.limits.MaxDepth, g.limits.MaxChildren
	}
	if g.chance(50) {
		l.MaxFanOut, l.MaxSessions, l.MaxVisits = g.limits.MaxFanOut, g.limits.MaxSessions, g.limits.MaxVisits
	}
}

func (g *generator) caller(a *sessions.Admission) {
	t := g.model.trees[a.Root]
	switch n := g.IntN(100); {
	case n < 40 && t != nil:
		from := g.goesOn(t)
		a.Caller.ContextID, a.Local = from.ContextID, from.Agent
		if from.Kind == lineage.Main {
			a.Local = "coordinator"
		}
	case n < 47:
		a.Caller.SiblingOf = g.context()
	case n < 58 && t != nil:
		a.Caller = sessions.Caller{Session: g.goesOn(t).ID, ContextID: pick(g, "", g.context()), Depth: g.IntN(4)}
	case n < 59:
		a.Caller.Session = "unknown"
	case n < 66:
		a.Caller = sessions.Caller{ContextID: pick(g, "x1", "x2", g.context()), Depth: g.IntN(4)}
		a.Local = pick(g, "side", "a")
	}
}

// session decides which session the call is for.
func (g *generator) session(a *sessions.Admission) {
	switch n := g.IntN(100); {
	case n < 35:
		a.Isolated, a.ContextID = true, g.id("fresh")
	case n < 70:
		a.Resolve, a.ContextID = sessions.ResolveContext, g.context()
	case n < 85:
		a.Resolve, a.ContextID = sessions.ResolveAgent, pick(g, "", g.context())
	}
}

// repeat makes the call one of a known task, or a retry. A retry is the same
// message: it names the task that the first try named.
func (g *generator) repeat(a *sessions.Admission) {
	switch n := g.IntN(100); {
	case n < 15:
		a.TaskID = g.task()
	case n < 35 && len(g.sent) > 0:
		before := pick(g, g.sent[max(0, len(g.sent)-20):]...)
		a.Root, a.Agent, a.MessageID, a.TaskID = before.Root, before.Agent, before.MessageID, before.TaskID
		a.CatchAll, a.Limits.MaxConcurrent = before.CatchAll, before.Limits.MaxConcurrent
	}
}

// goesOn is a random session of t, sooner one that has not ended.
func (g *generator) goesOn(t *modelTree) *node {
	n := pick(g, t.nodes...)
	for range 5 {
		if !n.State.Terminal() || g.chance(10) {
			break
		}
		n = pick(g, t.nodes...)
	}
	return n
}

// late is a session of t that has ended, and in which a run is open; nil if
// there is none.
func (g *generator) late(t *modelTree) *node {
	var all []*node
	for _, n := range t.nodes {
		if n.State.Terminal() && n.unfinished() {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(g, all...)
}

// anyRun is a random run, sooner one that has not ended; nil if there is none.
func (g *generator) anyRun() (*modelTree, *modelRun) {
	for range 8 {
		t := g.model.trees[g.root()]
		if t == nil {
			continue
		}
		n := pick(g, t.nodes...)
		if len(n.runs) == 0 {
			continue
		}
		if r := pick(g, n.runs...); !r.State.Terminal() || g.chance(25) {
			return t, r
		}
	}
	return nil, nil
}

func (g *generator) progress() *sessions.Progress {
	t, r := g.anyRun()
	if r == nil {
		return &sessions.Progress{
			Root: pick(g, "r1", "r2", "unknown"), Session: pick(g, "", "unknown"), Run: pick(g, "", "unknown"),
			Agent: g.agent(), TaskID: pick(g, "", g.task()), State: lineage.Completed,
		}
	}
	p := &sessions.Progress{
		Root: t.root, Session: r.in.ID, Run: r.ID, Gen: r.gen, Agent: r.in.Agent, TraceID: pick(g, "", "trace2"),
	}
	if g.chance(15) {
		p.Gen = g.IntN(r.gen + 1)
	}
	if g.chance(20) {
		p.Session = "" // the run's
	}
	g.state(p)
	if g.chance(10) || r.Reason == lineage.ReasonRequested && g.chance(30) {
		p.Detach = g.length(4000)
	}
	if g.chance(20) {
		p.ContextID = g.context()
	}
	for range g.IntN(3) {
		p.Events = append(p.Events, sessions.Draft{
			ID: pick(g, "d1", "d2", "d3", g.id("d")), Type: pick(g, lineage.EventQueued, lineage.EventRefused),
			Payload: json.RawMessage(pick(g, `{}`, `{"text":"1"}`)),
		})
	}
	switch n := g.IntN(100); {
	case n < 25: // with an event that tells it, which another run may have told, or without
		p.TaskID = g.task()
		if n < 15 {
			p.Events = append(p.Events, sessions.Draft{
				ID: "seen/" + r.in.Agent + "/" + p.TaskID + "/" + pick(g, "1", "2", "3"), Type: lineage.EventStatus,
				Payload: json.RawMessage(fmt.Sprintf(`{"run":%q,"taskId":%q}`, r.ID, p.TaskID)),
			})
		}
	case n < 35 && r.TaskID != "":
		p.Session, p.Run, p.TaskID = "", "", r.TaskID
	case n < 38:
		p.Run, p.Session = "", r.in.ID
	}
	return p
}

func (g *generator) state(p *sessions.Progress) {
	switch n := g.IntN(100); {
	case n < 20:
		return
	case n < 35:
		p.State = lineage.Active
	case n < 60:
		p.State, p.Reason = lineage.Suspended, pick(g, "", "auth")
		return
	case n < 75:
		p.State, p.Reason = lineage.Failed, lineage.ReasonLost
	case n < 85:
		p.State, p.Reason = lineage.Failed, pick(g, "", lineage.ReasonCanceled)
	default:
		p.State = lineage.Completed
	}
	if p.State != lineage.Active && g.chance(30) {
		p.Result = json.RawMessage(fmt.Sprintf(`{"status":%q,"summary":"s%d"}`, p.State, g.IntN(9)))
		p.Usage = json.RawMessage(`{"tokens":7}`)
	}
}

func (g *generator) renew() step {
	r := &renewal{Lease: g.length(pick(g, 900, 900, 8000))}
	for range 1 + g.IntN(4) {
		if t, run := g.anyRun(); run != nil {
			r.Runs = append(r.Runs, sessions.RunRef{
				Root: t.root, Run: run.ID, Agent: run.in.Agent, Gen: run.gen - g.IntN(8)/7,
			})
		}
	}
	return step{Renew: r}
}

func (g *generator) claim() *claim {
	c := &claim{
		Key:     sessions.BindingKey{Kind: sessions.BindContext, Agent: g.agent(), ID: g.context()},
		Binding: sessions.Binding{Root: g.root(), Principal: "alice"},
	}
	if g.chance(40) {
		c.Key.Kind, c.Key.ID = sessions.BindTask, g.task()
	}
	return c
}

// unclaim takes a claim back, unless another tree has a session under the key:
// whether that tree gets the key at once, when it is heard of there again, or
// never, is left to the store.
func (g *generator) unclaim() step {
	c := g.claim()
	at := agentID{c.Key.Agent, c.Key.ID}
	for root, t := range g.model.trees {
		if root != c.Binding.Root && (t.contexts[at] != nil || t.tasks[at] != nil) {
			return step{Claim: c}
		}
	}
	return step{Unclaim: c}
}
