package adminapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func TestNest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		sessions []lineage.Session
		want     string
	}{
		{"none", nil, ""},
		{"children in spawn order", []lineage.Session{
			{ID: "a"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "b"}, {ID: "d", Parent: "a"}, {ID: "e", Parent: "b"},
		}, "a(b(c e) d)"},
		{"parent unknown", []lineage.Session{{ID: "a"}, {ID: "b", Parent: "gone"}}, "a b"},
		{"parent comes later", []lineage.Session{{ID: "b", Parent: "a"}, {ID: "a"}}, "b a"},
		{"its own parent", []lineage.Session{{ID: "a", Parent: "a"}}, "a"},
		{"a loop", []lineage.Session{{ID: "a", Parent: "b"}, {ID: "b", Parent: "a"}}, "a(b)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := spell(adminapi.Nest(tt.sessions)); got != tt.want {
				t.Errorf("Nest(%s) = %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

func spell(sessions []adminapi.Session) string {
	var text string
	for i, s := range sessions {
		if i > 0 {
			text += " "
		}
		text += s.ID
		if len(s.Children) > 0 {
			text += "(" + spell(s.Children) + ")"
		}
	}
	return text
}

// The members of a session and those that this package adds stand side by side.
func TestSessionJSON(t *testing.T) {
	t.Parallel()
	nested := adminapi.Nest([]lineage.Session{{ID: "a"}, {ID: "b", Parent: "a"}})
	b, err := json.Marshal(nested[0])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	children, _ := got["children"].([]any)
	if got["id"] != "a" || len(children) != 1 {
		t.Errorf("Marshal(Session) = %s, want id a and one child", b)
	}
	child, _ := children[0].(map[string]any)
	if _, has := child["children"]; has {
		t.Errorf("Marshal(Session) = %s, want no children in the child", b)
	}
}

func TestLimitsJSON(t *testing.T) {
	t.Parallel()
	limits := adminapi.LimitsOf(lineage.Limits{
		MaxDepth: 4, MaxChildren: 8, MaxFanOut: 3, MaxSessions: 1000, MaxVisits: 2, MaxConcurrent: 5, QueueTimeout: 90 * time.Second,
	})
	b, err := json.Marshal(limits)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"maxDepth":4,"maxChildren":8,"maxFanOut":3,"maxSessions":1000,"maxVisits":2,"maxConcurrent":5,"queueTimeout":"1m30s"}`
	if string(b) != want {
		t.Errorf("Marshal(Limits) = %s, want %s", b, want)
	}
	var back adminapi.Limits
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(limits, back); diff != "" {
		t.Errorf("Limits after a round trip (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"queueTimeout":"soon"}`), &back); err == nil {
		t.Error("Unmarshal(queueTimeout soon) = nil, want an error")
	}
}
