package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// A place held by an ancestor never blocks its descendants: an agent at which
// one call may be at work calls itself, past others who wait for it.
func TestConformanceAncestorsPlaceBlocksNobodyBelow(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		agent := cast(t, "recursive")
		s := st.serve(t, settings("", agent.with("isolateSessions: true, limits: {maxConcurrent: 1}")), "coordinator", "recursive")
		c, own := dial(t, s[0], "recursive"), dial(t, s[1], "recursive")
		top := stream(t, c, origin{root: "chat"}, userSays("top"))
		first := next(t, "it works", agent.jobs)
		waiting := stream(t, c, origin{root: "chat"}, userSays("other"))
		s[0].queued(t, "chat", 1)

		below := stream(t, own, first.origin(), userSays("below"))
		second := next(t, "it works for itself", agent.jobs)
		if second.Text != "below" {
			t.Fatalf("%q is at work, want the call from below", second.Text)
		}
		third := stream(t, own, second.origin(), userSays("further below"))
		if refusal := third.refusal(t); refusal == nil || !strings.Contains(refusal.Message, "would stand 3 times on the path") {
			t.Errorf("a third visit got %v, want a refusal by maxVisits", third.err)
		}
		second.end(a2a.TaskStateCompleted, "done")
		below.finish(t, a2a.TaskStateCompleted)
		if n := len(agent.jobs); n != 0 {
			t.Errorf("%d calls came to an agent whose place is taken", n)
		}
		first.end(a2a.TaskStateCompleted, "done")
		top.finish(t, a2a.TaskStateCompleted)
		next(t, "it works for who has waited", agent.jobs).end(a2a.TaskStateCompleted, "done")
		waiting.finish(t, a2a.TaskStateCompleted)
	})
}

// Who leaves the line for a place is gone from it: the place goes to the next.
func TestConformanceCallerLeavesTheLine(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		worker := cast(t, "worker")
		s := st.serve(t, settings("maxChildren: 1", worker.with("isolateSessions: true")), "coordinator")[0]
		c, chat := dial(t, s, "worker"), origin{root: "chat"}
		var line []*call
		for i := range 4 {
			line = append(line, stream(t, c, chat, userSays(strconv.Itoa(i))))
			s.queued(t, "chat", i)
			if i == 0 {
				next(t, "the first has begun", line[0].begun)
			}
		}
		first := next(t, "the worker works", worker.jobs)
		for _, gone := range line[1:3] {
			gone.leave()
			next(t, "the caller is gone", gone.done)
		}
		s.waited(t, "worker", 2)
		first.end(a2a.TaskStateCompleted, "done")
		line[0].finish(t, a2a.TaskStateCompleted)
		last := next(t, "the worker works", worker.jobs)
		if last.Text != "3" {
			t.Errorf("call %s got the place, want the one that stayed", last.Text)
		}
		last.end(a2a.TaskStateCompleted, "done")
		line[3].finish(t, a2a.TaskStateCompleted)
		tree, err := s.client(t).Tree(t.Context(), "chat")
		if err != nil || len(tree.Sessions) != 3 || len(worker.jobs) != 0 {
			t.Errorf("the tree has %d sessions, %v, and the worker %d more calls; want 3 and none", len(tree.Sessions), err, len(worker.jobs))
		}
	})
}

// A call that waits at one sidecar gets a place that another one frees, at once:
// under its parent, and at an agent that takes so many calls.
func TestConformancePlaceFreedElsewhere(t *testing.T) {
	t.Parallel()
	const soon = 500 * time.Millisecond // a look for a place now and then would take seconds
	for name, tt := range map[string]struct {
		limits, policy string
		trees          int
	}{
		"under a parent": {"maxChildren: 1", "isolateSessions: true", 1},
		"at an agent":    {"", "isolateSessions: true, limits: {maxConcurrent: 1}", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := onRedis(t)
			worker, other := cast(t, "worker"), cast(t, "other")
			s := st.serve(t, settings(tt.limits, worker.with(tt.policy), other.with("isolateSessions: true")), "coordinator", "coordinator")
			for i := range tt.trees { // waiting is told in the log of a tree that is there
				p := stream(t, dial(t, s[0], "other"), origin{root: fmt.Sprint("chat-", i)}, userSays("hello"))
				next(t, "the other works", other.jobs).end(a2a.TaskStateCompleted, "hello")
				p.finish(t, a2a.TaskStateCompleted)
			}
			const turns = 8
			current := stream(t, dial(t, s[0], "worker"), origin{root: "chat-0"}, userSays("go"))
			waits := map[string]int{}
			for i := 1; i <= turns; i++ {
				j := next(t, "the worker works", worker.jobs)
				root := fmt.Sprint("chat-", i%tt.trees)
				following := stream(t, dial(t, s[i%2], "worker"), origin{root: root}, userSays("go"))
				waits[root]++
				s[i%2].queued(t, root, waits[root])
				freed := time.Now()
				j.end(a2a.TaskStateCompleted, "done")
				current.finish(t, a2a.TaskStateCompleted)
				current = following
				next(t, "the next call begins", current.begun)
				if took := time.Since(freed); took > soon {
					t.Errorf("turn %d: the place was taken %s after it came free, want at once", i, took)
				}
			}
			next(t, "the worker works", worker.jobs).end(a2a.TaskStateCompleted, "done")
			current.finish(t, a2a.TaskStateCompleted)
		})
	}
}

// However many calls wait, the store is not stormed: only the first of a line
// asks, now and then.
func TestConformanceWaitingCostsTheStoreLittle(t *testing.T) {
	t.Parallel()
	st := onRedis(t)
	worker := cast(t, "worker")
	s := st.serve(t, settings("maxChildren: 1", worker.with("isolateSessions: true")), "coordinator", "coordinator")
	clients := []*a2aclient.Client{dial(t, s[0], "worker"), dial(t, s[1], "worker")}
	chat := origin{root: "chat"}
	first := stream(t, clients[0], chat, userSays("go"))
	next(t, "the first has begun", first.begun)
	const waiting = 200
	var line []*call
	for i := range waiting {
		line = append(line, stream(t, clients[i%2], chat, userSays("go")))
	}
	s[0].queued(t, "chat", waiting)
	rdb := st.redis.Client(t)
	commands := func() map[string]int {
		text, err := rdb.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		return commandCounts(text)
	}
	const span = 3 * time.Second
	began, before := time.Now(), commands()
	within(t, patience, "some time has passed", func() bool { return time.Since(began) > span })
	after := commands()
	seconds := time.Since(began).Seconds()
	all := 0
	for name, n := range after {
		if name != "info" {
			all += n - before[name]
		}
	}
	scripts := after["evalsha"] - before["evalsha"] + after["fcall"] - before["fcall"]
	t.Logf("%.1f scripts and %.1f commands a second, within scripts and without", float64(scripts)/seconds, float64(all)/seconds)
	const mostScripts, mostCommands = 20, 400 // a second; each of the calls asking once would be more
	if float64(scripts)/seconds > mostScripts || float64(all)/seconds > mostCommands {
		t.Errorf("%d waiting calls cost the store %d scripts and %d commands in %.1fs, want at most %d and %d a second", waiting, scripts, all, seconds, mostScripts, mostCommands)
	}
	for _, p := range line {
		p.leave()
	}
	for _, p := range line {
		next(t, "the caller is gone", p.done)
	}
	for _, s := range s {
		s.waited(t, "worker", waiting/2)
	}
	next(t, "the worker works", worker.jobs).end(a2a.TaskStateCompleted, "done")
	first.finish(t, a2a.TaskStateCompleted)
	last := stream(t, clients[1], chat, userSays("after all"))
	j := next(t, "the worker works", worker.jobs)
	if j.Text != "after all" {
		t.Errorf("%q is at work, whose caller has left", j.Text)
	}
	j.end(a2a.TaskStateCompleted, "done")
	last.finish(t, a2a.TaskStateCompleted)
}

// commandCounts reads how often each command was called, those within scripts too.
func commandCounts(info string) map[string]int {
	counts := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		name, stats, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		n, _, _ := strings.Cut(stats, ",")
		counts[name], _ = strconv.Atoi(n) // Redis's own number
	}
	return counts
}
