package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

var update = flag.Bool("update", false, "write the golden files of testdata/tree anew")

var treeTime = time.Date(2026, 3, 1, 14, 3, 7, 0, time.UTC)

func after(d time.Duration) *time.Time {
	t := treeTime.Add(d)
	return &t
}

// growing puts a tree together: every child is spawned 10 ms after the last.
type growing struct {
	sessions []lineage.Session
	at       map[string]int
}

func growTree(root, agent string) *growing {
	return &growing{
		at: map[string]int{agent: 0},
		sessions: []lineage.Session{{
			ID: "main", Tree: root, Edge: lineage.EdgeRoot, Kind: lineage.Main, Agent: agent, ContextID: root,
			State: lineage.Active, Branch: agent, CreatedAt: treeTime,
		}},
	}
}

// child adds a session with one run. A took of zero means that it still runs.
func (g *growing) child(parent, agent string, kind lineage.Kind, state lineage.State, reason string, took time.Duration) *lineage.Session {
	p := g.sessions[g.at[parent]]
	n := len(g.sessions)
	ordinal := 1
	for i := range g.sessions {
		if g.sessions[i].Parent == p.ID {
			ordinal++
		}
	}
	s := lineage.Session{
		ID: fmt.Sprintf("s%d", n), Tree: p.Tree, Parent: p.ID, Edge: lineage.EdgeSpawn, Kind: kind, Agent: agent,
		ContextID: fmt.Sprintf("0198c0de-7a11-7000-8000-0000000000%02x", n), State: state, Reason: reason, Depth: p.Depth + 1,
		Branch: lineage.Label(p.Branch, agent, ordinal), Ordinal: ordinal, CreatedAt: *after(time.Duration(n) * 10 * time.Millisecond),
	}
	run := lineage.Run{ID: s.ID + "-run", State: state, Reason: reason, StartedAt: s.CreatedAt}
	if took > 0 {
		end := s.CreatedAt.Add(took)
		run.EndedAt = &end
		if state.Terminal() {
			s.EndedAt = &end
		}
	}
	s.Runs = []lineage.Run{run}
	g.at[s.Branch] = n
	g.sessions = append(g.sessions, s)
	return &g.sessions[n]
}

// everyState has a session of every kind and state.
func everyState() []lineage.Session {
	g := growTree("conversation-42", "coordinator")
	g.child("coordinator", "worker", lineage.Worker, lineage.Completed, "", 1204*time.Millisecond)
	g.child("coordinator", "worker", lineage.Worker, lineage.Active, "", 0)
	g.child("coordinator", "reviewer", lineage.Branch, lineage.Failed, lineage.ReasonLost, 3*time.Second)
	g.child("coordinator.reviewer@3", "helper", lineage.Branch, lineage.Suspended, "", 0)
	g.child("coordinator.reviewer@3.helper@1", "worker", lineage.Worker, lineage.Expired, "", 2*time.Second)
	g.child("coordinator.reviewer@3", "helper", lineage.Branch, lineage.Completed, "", 42*time.Millisecond)
	idle := g.child("coordinator", "memory", lineage.Branch, lineage.Active, "", 300*time.Millisecond)
	idle.Runs[0].State = lineage.Completed
	shared := g.child("coordinator", "shared", lineage.Branch, lineage.Active, "", 0)
	for range 10 {
		shared.Runs = append(shared.Runs, shared.Runs[0])
	}
	remote := g.child("coordinator", "elsewhere", lineage.Branch, lineage.Active, "", time.Second)
	remote.Remote, remote.Runs, remote.ContextID = true, nil, ""
	fork := g.child("coordinator", "writer", lineage.Branch, lineage.Completed, "", 61*time.Minute)
	fork.Edge, fork.Branch = lineage.EdgeFork, "coordinator.second-draft"
	return g.sessions
}

// everyEnding has sessions at the points of their lives where nobody has called
// them yet, and where they are asked to stop.
func everyEnding() []lineage.Session {
	g := growTree("conversation-42", "coordinator")
	reserved := g.child("coordinator", "worker", lineage.Worker, lineage.Active, "", 0)
	reserved.Reserved, reserved.Runs = true, nil
	aside := g.child("coordinator", "worker", lineage.Branch, lineage.Suspended, "", 0)
	aside.Reserved, aside.Runs = true, nil
	for _, why := range []string{lineage.ReasonCanceled, lineage.ReasonOrphaned, lineage.ReasonExpired} {
		ending := g.child("coordinator", "reviewer", lineage.Branch, lineage.Active, "", 0)
		ending.Ending, ending.Deadline = why, after(30*time.Second)
	}
	waits := g.child("coordinator", "reviewer", lineage.Branch, lineage.Suspended, "", 0)
	waits.Ending = lineage.ReasonOrphaned
	own := g.child("coordinator", "memory", lineage.Branch, lineage.Active, "", 0)
	own.Abandon = true
	ended := g.child("coordinator", "memory", lineage.Branch, lineage.Expired, lineage.ReasonParentEnded, time.Second)
	ended.Abandon, ended.Runs = true, nil
	g.child("coordinator", "worker", lineage.Worker, lineage.Failed, lineage.ReasonOrphaned, time.Second)
	return g.sessions
}

// manySiblings is a fan-out, all done.
func manySiblings() []lineage.Session {
	g := growTree("0198c0de-7a11-7000-8000-fff000000001", "coordinator")
	for i := range 12 {
		g.child("coordinator", "worker", lineage.Worker, lineage.Completed, "", time.Duration(900+i*13)*time.Millisecond)
	}
	return g.sessions
}

// hostileTree has control characters, and more, wherever a name comes from
// outside.
func hostileTree() []lineage.Session {
	g := growTree("\x1b]0;owned\x07\x1b[2J", "coordinator")
	s := g.child("coordinator", "worker", "branch\x1b[31m", "done\n", "\x9b31m\u202ereversed", 0)
	s.ContextID, s.Runs[0].State = "ctx\r\x00\u2028日本語", lineage.Completed
	return g.sessions
}

func TestDrawTree(t *testing.T) {
	t.Parallel()
	plainStyle := style{}
	tests := []struct {
		name     string
		sessions []lineage.Session
		style    style
	}{
		{"states", everyState(), plainStyle},
		{"states-200", everyState(), style{width: 200}},
		{"states-80", everyState(), style{width: 80}},
		{"states-88", everyState(), style{width: 88}}, // six columns for an id: too few
		{"states-60", everyState(), style{width: 60}},
		{"states-200-colour", everyState(), style{width: 200, colour: true}},
		{"states-80-colour", everyState(), style{width: 80, colour: true}},
		{"states-80-ascii", everyState(), style{width: 80, ascii: true}},
		{"endings", everyEnding(), plainStyle},
		{"endings-80-ascii", everyEnding(), style{width: 80, ascii: true}},
		{"endings-120-colour", everyEnding(), style{width: 120, colour: true}},
		{"siblings", manySiblings(), plainStyle},
		{"siblings-80", manySiblings(), style{width: 80}},
		{"hostile", hostileTree(), plainStyle},
		{"hostile-80-ascii", hostileTree(), style{width: 80, ascii: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := drawTree(&b, tt.sessions, *after(4200 * time.Millisecond), tt.style); err != nil {
				t.Fatal(err)
			}
			got := b.String()
			if w := tt.style.width; w >= 80 {
				for line := range strings.Lines(stripColour(got)) {
					if n := columns(strings.TrimSuffix(line, "\n")); n > w {
						t.Errorf("line of %d columns, want at most %d: %s", n, w, line)
					}
				}
			}
			checkGolden(t, filepath.Join("testdata", "tree", tt.name+".txt"), got)
		})
	}
}

// Colour is laid over the text: nothing moves.
func TestColourMovesNothing(t *testing.T) {
	t.Parallel()
	var bare, coloured strings.Builder
	for b, st := range map[*strings.Builder]style{&bare: {width: 80}, &coloured: {width: 80, colour: true}} {
		if err := drawTree(b, everyState(), *after(time.Second), st); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(bare.String(), stripColour(coloured.String())); diff != "" {
		t.Errorf("drawing without its colours (-plain +coloured):\n%s", diff)
	}
}

// Reservations are live, but nothing runs in them.
func TestDrawReservations(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := drawTree(&b, everyEnding()[:2], *after(time.Hour), style{}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "1 live") || !strings.Contains(got, "○ reserved") || !strings.Contains(got, "○ active") {
		t.Errorf("a tree with nothing but a reservation =\n%s\nwant it live, and hollow marks", got)
	}
}

// Of a tree that is drawn in part, the line about the whole tells its counts.
func TestDrawPart(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	whole := &adminapi.Counts{Sessions: 100000, Live: 12, Errors: 3, Depth: 4, Events: 1000000}
	if err := drawPart(&b, manySiblings()[:3], whole, *after(time.Hour), style{}); err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(b.String(), "\n")
	want := "0198c0de-7a11-7000-8000-fff000000001   100000 sessions · 12 live · depth 4 · 3 errors · started 14:03:07 · the first 3 drawn"
	if line != want || strings.Count(rest, "\n") != 3 {
		t.Errorf("part of a tree is drawn as\n%s\nwant %s, and 3 sessions", b.String(), want)
	}
}

// A hostile name must not reach the terminal as anything but text.
func TestDrawTreeHarmless(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := drawTree(&b, hostileTree(), *after(time.Second), style{}); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && clean(string(r), false) != string(r) }); i >= 0 {
		t.Errorf("drawTree() wrote %q, want nothing that is not printable", b.String()[i:])
	}
}

func TestDrawTreeOfNothing(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := drawTree(&b, nil, treeTime, style{}); err != nil || b.Len() > 0 {
		t.Errorf("drawTree(nothing) = %q, %v, want nothing", b.String(), err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken")

func TestDrawTreeTellsOfWriteErrors(t *testing.T) {
	t.Parallel()
	if err := drawTree(brokenWriter{}, everyState(), treeTime, style{}); !errors.Is(err, errBroken) {
		t.Errorf("drawTree(broken writer) = %v, want its error", err)
	}
}

func stripColour(s string) string {
	for {
		before, rest, ok := strings.Cut(s, "\x1b[")
		if !ok {
			return s
		}
		_, rest, _ = strings.Cut(rest, "m")
		s = before + rest
	}
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -run %s -update writes it)", err, t.Name())
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
