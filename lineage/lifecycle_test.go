package lineage_test

import (
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The table of Verb.Check, cell by cell.
func TestVerbCheck(t *testing.T) {
	t.Parallel()
	verbs := []lineage.Verb{lineage.VerbComplete, lineage.VerbFail, lineage.VerbSuspend, lineage.VerbResume, lineage.VerbCancel}
	kinds := []lineage.Kind{lineage.Main, lineage.Branch, lineage.Worker}
	for _, v := range verbs {
		for _, k := range kinds {
			for _, s := range states {
				for _, waits := range []bool{false, true} {
					want := !s.Terminal()
					if v == lineage.VerbSuspend {
						want = k == lineage.Branch && s == lineage.Active
					}
					if v == lineage.VerbResume {
						want = k == lineage.Branch && s == lineage.Suspended && !waits
					}
					conflict := v.Check(&lineage.Session{ID: "s1", Kind: k, State: s}, waits)
					if got := conflict == nil; got != want {
						t.Errorf("%s.Check(%s %s, waits %t) = %v, want it allowed: %t", v, s, k, waits, conflict, want)
					}
					if conflict != nil && (conflict.Why == "" || !strings.Contains(conflict.Error(), "session s1 is "+string(s)+" and cannot "+string(v))) {
						t.Errorf("%s.Check(%s %s) says %q, want session, state, step and why", v, s, k, conflict.Error())
					}
				}
			}
		}
	}
}

// What is being ended is not suspended, and not held up by a resume.
func TestVerbCheckWhileEnding(t *testing.T) {
	t.Parallel()
	for v, want := range map[lineage.Verb]bool{
		lineage.VerbComplete: true, lineage.VerbFail: true, lineage.VerbCancel: true,
		lineage.VerbSuspend: false, lineage.VerbResume: false,
	} {
		for _, state := range []lineage.State{lineage.Active, lineage.Suspended} {
			s := &lineage.Session{Kind: lineage.Branch, State: state, Ending: lineage.ReasonOrphaned}
			if got := v.Check(s, false) == nil; got != want {
				t.Errorf("%s.Check(%s, being ended) allowed: %t, want %t", v, state, got, want)
			}
		}
	}
}

func TestEndingCallerIsRefused(t *testing.T) {
	t.Parallel()
	place := lineage.Place{Agent: "b", Kind: lineage.Branch, New: true, Caller: &lineage.Session{Branch: "c", Ending: lineage.ReasonCanceled}}
	if got := (lineage.Limits{}).Check(place); got == nil || got.Reason != lineage.ParentEnded {
		t.Errorf("Check(caller that is being ended) = %v, want PARENT_ENDED", got)
	}
}

func TestDefaultTTL(t *testing.T) {
	t.Parallel()
	for k, want := range map[lineage.Kind]string{lineage.Main: "0s", lineage.Branch: "30m0s", lineage.Worker: "5m0s"} {
		if got := lineage.DefaultTTL(k).String(); got != want {
			t.Errorf("DefaultTTL(%s) = %s, want %s", k, got, want)
		}
	}
}
