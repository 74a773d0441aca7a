package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// sidecar is a simulated one: it holds the runs of the calls that it was
// granted and heard of. One that is killed comes back as another.
type sidecar struct {
	owner string
	held  []sessions.Grant
}

// message is something that a sidecar said and the store has not heard yet.
type message struct {
	from  *sidecar
	owner string // the life of the sidecar that said it
	step  step
}

func (l *life) id(what string) string {
	l.last++
	return fmt.Sprintf("%s%04d", what, l.last)
}

// onTheBeat is about d, as the clock goes by: see quantum.
func onTheBeat(d time.Duration) time.Duration { return d.Truncate(quantum) + quantum }

// length is a length of time up to most which ends at no beat.
func length(rt *rapid.T, what string, most time.Duration) time.Duration {
	s := rapid.IntRange(1, int(most/time.Second)).Draw(rt, what)
	return (time.Duration(s) * time.Second).Truncate(quantum) - quantum + time.Millisecond
}

func chance(rt *rapid.T, percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(rt, what) >= 100-percent // so that shrinking makes it false
}

// says sends something to the store: it may get lost on the way back, come
// twice, or come much later. What is granted to a sidecar that is still there
// and hears of it, that holds.
func (l *life) says(rt *rapid.T, from *sidecar, st step) {
	m := message{from, from.owner, st}
	switch fate := rapid.IntRange(0, 9).Draw(rt, "fate"); fate {
	case 9:
		l.wire = append(l.wire, m)
	case 8:
		l.hears(rt, m)
		l.hears(rt, m)
	case 7:
		l.do(rt, st) // the reply is lost
	default:
		l.hears(rt, m)
	}
}

func (l *life) hears(rt *rapid.T, m message) {
	out := l.do(rt, m.step)
	for _, g := range out.Grants {
		if g.RunID != "" && m.from.owner == m.owner {
			m.from.held = append(m.from.held, g)
		}
	}
}

// arrive lets something that is on its way arrive.
func (l *life) arrive(rt *rapid.T) {
	if len(l.wire) == 0 {
		return
	}
	i := rapid.IntRange(0, len(l.wire)-1).Draw(rt, "message")
	m := l.wire[i]
	l.wire = slices.Delete(l.wire, i, i+1)
	l.hears(rt, m)
}

func (l *life) sidecar(rt *rapid.T) *sidecar {
	return l.sidecars[rapid.IntRange(0, len(l.sidecars)-1).Draw(rt, "sidecar")]
}

// holder is a sidecar and a run that it holds, or believes to.
func (l *life) holder(rt *rapid.T) (*sidecar, *sessions.Grant) {
	s := l.sidecar(rt)
	if len(s.held) == 0 {
		return s, nil
	}
	return s, &s.held[rapid.IntRange(0, len(s.held)-1).Draw(rt, "held")]
}

func anyRoot(rt *rapid.T) string {
	if chance(rt, 20, "other root") {
		return roots[1]
	}
	return roots[0]
}

// anySession is a session of a tree, the root's included, and sooner one that
// has not ended; nil if there is none.
func (l *life) anySession(rt *rapid.T, root string) *node {
	t := l.model.trees[root]
	if t == nil {
		return nil
	}
	all := t.nodes
	if !chance(rt, 15, "of all") {
		all = slices.DeleteFunc(slices.Clone(all), func(n *node) bool { return n.State.Terminal() })
	}
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(rt, "session")]
}

// admission is a call of the root session to agent.
func (l *life) admission(root, agent string) *sessions.Admission {
	return &sessions.Admission{
		Root: root, Principal: alice, Local: "coordinator", MainID: l.id("main"), RemoteID: l.id("remote"),
		Agent: agent, Kind: lineage.Branch, Inherit: lineage.InheritFull, Source: lineage.FromHeader,
		SessionID: l.id("session"), RunID: l.id("run"), MessageID: l.id("message"), Limits: l.caps,
		Lease: onTheBeat(10*time.Second) + time.Millisecond, TTL: onTheBeat(longestTTL/2) + time.Millisecond,
	}
}

// asked is a random admission, without what makes it a call or a request.
func (l *life) asked(rt *rapid.T, by *sidecar) *sessions.Admission {
	a := l.admission(anyRoot(rt), rapid.SampledFrom(agents).Draw(rt, "agent"))
	a.Owner, a.Lease, a.TTL = by.owner, length(rt, "lease", longestLease), length(rt, "ttl", longestTTL)
	a.Abandon = chance(rt, 15, "abandon")
	if chance(rt, 25, "worker") {
		a.Kind, a.Inherit = lineage.Worker, lineage.InheritNone
	}
	if n := l.anySession(rt, a.Root); n != nil && chance(rt, 60, "below") {
		a.Caller.Session = n.ID
	} else if chance(rt, 10, "stranger") {
		a.Caller = sessions.Caller{ContextID: rapid.SampledFrom([]string{"far1", "far2"}).Draw(rt, "far"), Depth: 1}
	}
	return a
}

func (l *life) call(rt *rapid.T) {
	by := l.sidecar(rt)
	a := l.asked(rt, by)
	shared := rapid.SampledFrom([]string{"ctx1", "ctx2"}).Draw(rt, "context")
	switch rapid.IntRange(0, 3).Draw(rt, "in") {
	case 0:
		a.Isolated, a.ContextID = true, l.id("context")
	case 1, 2:
		a.Resolve, a.ContextID = sessions.ResolveContext, shared
	case 3:
		a.Resolve = sessions.ResolveAgent
	}
	if n := l.anySession(rt, a.Root); n != nil {
		a.Named = n.ContextID
	}
	l.asks(rt, by, *a)
}

func (l *life) request(rt *rapid.T) {
	by := l.sidecar(rt)
	a := l.asked(rt, by)
	a.Ahead, a.RequestID, a.ContextID, a.MessageID = true, l.id("request"), l.id("context"), ""
	a.Isolated = chance(rt, 50, "isolated")
	l.asks(rt, by, *a)
}

func (l *life) asks(rt *rapid.T, by *sidecar, a sessions.Admission) {
	l.sent = append(l.sent, a)
	l.says(rt, by, step{Ops: []sessions.Op{{Admit: &a}}})
}

// again is a call or a request made once more, by whatever sidecar: its reply
// was lost, or its caller is impatient. The sidecar makes up its ids anew.
func (l *life) again(rt *rapid.T) {
	if len(l.sent) == 0 {
		return
	}
	by, a := l.sidecar(rt), l.sent[rapid.IntRange(0, len(l.sent)-1).Draw(rt, "sent")]
	a.MainID, a.RemoteID, a.SessionID, a.RunID = l.id("main"), l.id("remote"), l.id("session"), l.id("run")
	a.Owner = by.owner
	l.says(rt, by, step{Ops: []sessions.Op{{Admit: &a}}})
}

// answer is a message to the task of a run, which any sidecar may get.
func (l *life) answer(rt *rapid.T) {
	_, g := l.holder(rt)
	if g == nil {
		return
	}
	by := l.sidecar(rt)
	a := l.admission(g.Session.Tree, g.Session.Agent)
	a.Owner, a.TaskID, a.Lease = by.owner, taskOf(g), length(rt, "lease", longestLease)
	l.says(rt, by, step{Ops: []sessions.Op{{Admit: a}}})
}

// taskOf is the task that the agent makes of a run.
func taskOf(g *sessions.Grant) string { return "task-" + g.RunID }

// news is what a sidecar saw of a run that it holds, or held.
func (l *life) news(rt *rapid.T) {
	by, g := l.holder(rt)
	if g == nil {
		return
	}
	p := &sessions.Progress{Root: g.Session.Tree, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: g.Session.Agent, TaskID: taskOf(g)}
	id := fmt.Sprintf("seen/%s/%s", g.RunID, rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "event"))
	p.Events = []sessions.Draft{{ID: id, Type: lineage.EventStatus, Payload: json.RawMessage(fmt.Sprintf(`{"run":%q,"taskId":%q}`, g.RunID, p.TaskID))}}
	switch rapid.IntRange(0, 6).Draw(rt, "news") {
	case 0:
		p.State = lineage.Active
	case 1, 2:
		p.State = lineage.Suspended
	case 3:
		p.State, p.Reason = lineage.Failed, lineage.ReasonLost
	case 4:
		p.State, p.Reason = lineage.Failed, lineage.ReasonCanceled
	case 5:
		p.State, p.Result = lineage.Completed, json.RawMessage(`{"status":"completed","summary":"done"}`)
	case 6:
		p.Detach = length(rt, "detach", longestLease)
	}
	l.says(rt, by, step{Ops: []sessions.Op{{Progress: p}}})
}

// staleNews is what only the holder of a run may say, said by one that held it
// before. It must change nothing.
func (l *life) staleNews(rt *rapid.T) {
	_, g := l.holder(rt)
	if g == nil {
		return
	}
	if r := l.model.trees[g.Session.Tree].run(g.RunID); r.gen <= g.Gen {
		return
	}
	p := &sessions.Progress{Root: g.Session.Tree, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: g.Session.Agent}
	if chance(rt, 50, "detach") {
		p.Detach = length(rt, "for", longestLease)
	} else {
		p.State, p.Reason = lineage.Failed, lineage.ReasonLost
	}
	before := l.dumps(rt, l.store)
	l.do(rt, step{Ops: []sessions.Op{{Progress: p}}})
	if d := diff(before, l.dumps(rt, l.store)); d != "" {
		rt.Fatalf("stale news %+v changed something (-before +after):\n%s", p, d)
	}
}

// beat renews all that a sidecar holds.
func (l *life) beat(rt *rapid.T) { l.beats(rt, l.sidecar(rt)) }

func (l *life) beats(rt *rapid.T, by *sidecar) {
	r := &renewal{Lease: length(rt, "lease", longestLease)}
	for _, g := range by.held {
		r.Runs = append(r.Runs, ref(g))
	}
	if len(r.Runs) > 0 {
		l.says(rt, by, step{Renew: r})
	}
}

// change is a step that somebody asks for, at whatever sidecar.
func (l *life) change(rt *rapid.T) {
	root := anyRoot(rt)
	n := l.anySession(rt, root)
	if n == nil || n.parent == nil && !chance(rt, 5, "of main") {
		return
	}
	c := &sessions.Change{Root: root, Session: n.ID, Verb: rapid.SampledFrom(verbs).Draw(rt, "verb")}
	l.says(rt, l.sidecar(rt), step{Ops: []sessions.Op{{Change: c}}})
}

// kill ends a sidecar. Another takes its stead, and knows nothing of it.
func (l *life) kill(rt *rapid.T) {
	s := l.sidecar(rt)
	s.owner, s.held = l.id("owner"), nil
}

// time jumps: within a lease, past a grace, or past everything. Most sidecars
// see it coming, and renew; the others lag.
func (l *life) time(rt *rapid.T) {
	for _, s := range l.sidecars {
		if !chance(rt, 25, "lags") {
			l.beats(rt, s)
		}
	}
	s := rapid.SampledFrom([]int{1, 5, 5, 12, 12, 31, 100}).Draw(rt, "seconds")
	l.do(rt, step{Advance: onTheBeat(time.Duration(s) * time.Second)})
}
