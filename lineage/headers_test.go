package lineage_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func TestHeadersFor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]lineage.Headers{
		"":          {Root: "x-kagent-root-context-id", Parent: "x-kagent-parent-context-id"},
		"x-kagent-": {Root: "x-kagent-root-context-id", Parent: "x-kagent-parent-context-id"},
		"x-mine-":   {Root: "x-mine-root-context-id", Parent: "x-mine-parent-context-id"},
	} {
		if got := lineage.HeadersFor(prefix); got != want {
			t.Errorf("HeadersFor(%q) = %+v, want %+v", prefix, got, want)
		}
	}
}

func TestEach(t *testing.T) {
	t.Parallel()
	full := lineage.Values{Root: "r", Parent: "p", Session: "s", Branch: "c.a@1", Depth: 2, Turn: "t"}
	context := map[string]string{"x-kagent-root-context-id": "r", "x-kagent-parent-context-id": "p"}
	all := map[string]string{
		"x-kagent-root-context-id": "r", "x-kagent-parent-context-id": "p",
		"X-Sidecar-Session-Id": "s", "X-Sidecar-Branch": "c.a@1", "X-Sidecar-Depth": "2", "X-Sidecar-Turn": "t",
	}
	for _, tt := range []struct {
		name   string
		values lineage.Values
		told   lineage.Told
		want   map[string]string
	}{
		{"full", full, lineage.ToldFull, all},
		{"root only", full, lineage.ToldRoot, context},
		{"nothing", full, lineage.ToldNone, map[string]string{}},
		{"empty values are left out", lineage.Values{Root: "r", Session: "s"}, lineage.ToldFull, map[string]string{
			"x-kagent-root-context-id": "r", "X-Sidecar-Session-Id": "s",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			tt.values.Each(lineage.HeadersFor(""), tt.told, func(name, value string) {
				if _, twice := got[name]; twice {
					t.Errorf("Each set %s twice", name)
				}
				got[name] = value
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%+v.Each(%s) (-want +got):\n%s", tt.values, tt.told, diff)
			}
		})
	}
}

func ExampleValues_Each() {
	v := lineage.Values{Root: "conversation-1", Parent: "conversation-1", Session: "s1", Branch: "coordinator.worker@1", Depth: 1}
	v.Each(lineage.HeadersFor(lineage.DefaultHeaderPrefix), lineage.ToldRoot, func(name, value string) {
		fmt.Println(name+":", value)
	})
	// Output:
	// x-kagent-root-context-id: conversation-1
	// x-kagent-parent-context-id: conversation-1
}
