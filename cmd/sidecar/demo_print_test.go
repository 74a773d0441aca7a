package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// fixedOutcome is what the demo shows of 11 calls, at fixed times.
func fixedOutcome() *demoOutcome {
	const root = "01a1f8a3-c601-7bf2-8c07-c2aa7b961ece"
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := &demoOutcome{
		Calls: 11, Conversation: root, Burst: "01a1f8a3-d000-7000-8000-000000000000", MaxChildren: 8,
		Shared: demoScene{
			Agent: demoShared, QueueTimeout: adminapi.Duration(5 * time.Minute), Sent: 11, Answered: 11,
			Foreign: demoRange{10, 10}, Topic: "tidal power", AlsoRead: slices.Clone(demoTopicList[1:]),
			Contexts: 1, Messages: demoRange{11, 11}, AtOnce: 11, Collapsed: 10,
		},
		Isolated: demoScene{
			Agent: demoIsolated, Isolate: true, QueueTimeout: adminapi.Duration(5 * time.Minute), Sent: 11, Answered: 11,
			Topic: "tidal power", Contexts: 11, Messages: demoRange{1, 1}, AtOnce: 8, Queued: 3,
		},
		Hasty: demoScene{
			Agent: demoHasty, Isolate: true, Sent: 11, Answered: 8, Refused: 3, Topic: "tidal power",
			Refusal:  "fan-out limit reached: session coordinator has 8 of 8 children running (maxChildren); retry when one ends",
			Contexts: 8, Messages: demoRange{1, 1}, AtOnce: 8,
		},
	}
	main := lineage.Session{ID: "main", Tree: root, Kind: lineage.Main, Agent: "coordinator", ContextID: root, State: lineage.Active, Branch: "coordinator", CreatedAt: at}
	shared := lineage.Session{
		ID: "shared", Tree: root, Parent: "main", Kind: lineage.Branch, Agent: demoShared, ContextID: root,
		State: lineage.Active, Depth: 1, Branch: "coordinator.shared@1", CreatedAt: at,
	}
	for range o.Calls {
		end := at.Add(400 * time.Millisecond)
		shared.Runs = append(shared.Runs, lineage.Run{State: lineage.Completed, StartedAt: at, EndedAt: &end})
	}
	o.Sessions = append(o.Sessions, main, shared)
	for i := range o.Calls {
		begin, end := at.Add(400*time.Millisecond), at.Add(800*time.Millisecond)
		if i >= o.MaxChildren {
			begin, end = begin.Add(400*time.Millisecond), end.Add(400*time.Millisecond)
		}
		o.Sessions = append(o.Sessions, lineage.Session{
			ID: fmt.Sprint("isolated", i), Tree: root, Parent: "main", Kind: lineage.Branch, Agent: demoIsolated,
			ContextID: fmt.Sprintf("01a1f8a3-c7cb-7d32-8216-%012d", i), State: lineage.Completed, Depth: 1,
			Branch: fmt.Sprintf("coordinator.isolated@%d", i+2), CreatedAt: begin, EndedAt: &end,
			Runs: []lineage.Run{{State: lineage.Completed, StartedAt: begin, EndedAt: &end}},
		})
	}
	return o
}

func TestDescribeDemo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 2, 0, time.UTC)
	up := func(o *demoOutcome) { o.Admin, o.Outbound = "http://127.0.0.1:40402", "http://127.0.0.1:40400" }
	for _, tt := range []struct {
		name  string
		style style
		edit  func(*demoOutcome)
	}{
		{"once", style{width: demoWidth}, func(*demoOutcome) {}},
		{"up-colour", style{width: demoWidth, colour: true}, up},
		{"store-ascii", style{width: demoWidth, ascii: true}, func(o *demoOutcome) { o.Store = "sqlite:my demo.db" }},
		{"slow", style{width: demoWidth}, func(o *demoOutcome) {
			// A machine so slow that not all calls met.
			o.Shared.Foreign.Least, o.Shared.AlsoRead = 7, o.Shared.AlsoRead[:2]
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := fixedOutcome()
			tt.edit(o)
			got, err := describeDemo(o, tt.style, now)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "demo", tt.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("describeDemo (-want +got):\n%s", diff)
			}
			if tt.style.ascii && strings.ContainsFunc(got, func(r rune) bool { return r > 127 }) {
				t.Errorf("describeDemo in ASCII prints more than that:\n%s", got)
			}
		})
	}
}

func TestVerifyDemo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		edit func(*demoOutcome)
		want string // empty: no fault
	}{
		{"as it should be", func(*demoOutcome) {}, ""},
		{"not all calls met", func(o *demoOutcome) { o.Shared.Foreign.Least = 0 }, ""},
		{"shared unanswered", func(o *demoOutcome) { o.Shared.Answered-- }, "agent shared answered 10 of 11 calls"},
		{"shared in two contexts", func(o *demoOutcome) { o.Shared.Contexts++ }, "agent shared had 2 contexts, not the 1 that is shared"},
		{"shared and clean", func(o *demoOutcome) { o.Shared.Foreign = demoRange{} }, "no call to agent shared read messages of others"},
		{"shared unnoticed", func(o *demoOutcome) { o.Shared.Collapsed = 0 }, "calls in one context at agent shared were not noticed"},
		{"isolated unanswered", func(o *demoOutcome) { o.Isolated.Answered-- }, "agent isolated answered 10 of 11 calls"},
		{"isolated collapsed", func(o *demoOutcome) { o.Isolated.Contexts-- }, "agent isolated had 10 contexts, not 1 for each of 11 calls"},
		{"isolated tangled", func(o *demoOutcome) { o.Isolated.Foreign.Most = 1 }, "a call to agent isolated read 1 message of others"},
		{"cap broken", func(o *demoOutcome) { o.Isolated.AtOnce = 9 }, "agent isolated worked on 9 calls at once, the cap is 8"},
		{"none waited", func(o *demoOutcome) { o.Isolated.Queued = 0 }, "none of 11 calls to agent isolated waited, the cap is 8"},
		{"none refused", func(o *demoOutcome) { o.Hasty.Refused = 0 }, "none of 11 calls to agent no-queue was refused, the cap is 8"},
		{"hasty cap broken", func(o *demoOutcome) { o.Hasty.AtOnce = 9 }, "agent no-queue worked on 9 calls at once, the cap is 8"},
		{"hasty waited", func(o *demoOutcome) { o.Hasty.Queued = 1 }, "1 call to agent no-queue waited, though its queueTimeout is 0"},
		{"session missing", func(o *demoOutcome) { o.Sessions = o.Sessions[1:] }, "the tree has 12 sessions, not 13"},
	} {
		o := fixedOutcome()
		tt.edit(o)
		got := ""
		if err := o.verify(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: verify() = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		n    int
		want []string
	}{
		{"a b c", 5, []string{"a b c"}},
		{"a b c", 4, []string{"a b", "c"}},
		{"longer than", 3, []string{"longer", "than"}},
		{"", 3, []string{""}},
	} {
		if got := fold(tt.text, tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("fold(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sqlite:demo.db":       "sqlite:demo.db",
		"sqlite:my demo.db":    "'sqlite:my demo.db'",
		"sqlite:it's.db":       `'sqlite:it'\''s.db'`,
		"redis://h:6379/0?a=b": "'redis://h:6379/0?a=b'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("shellWord(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDemoTopicsDiffer(t *testing.T) {
	t.Parallel()
	topics := demoTopics(maxDemoFan)
	seen := map[string]bool{}
	for _, topic := range topics {
		seen[topic] = true
	}
	if len(seen) != maxDemoFan {
		t.Errorf("demoTopics(%d) has %d topics that differ", maxDemoFan, len(seen))
	}
}
