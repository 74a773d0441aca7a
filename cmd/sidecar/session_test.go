package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func TestDescribeSession(t *testing.T) {
	t.Parallel()
	ending := everyEnding()[3]
	ending.Kind, ending.Isolated, ending.Abandon = lineage.Branch, true, true
	ending.Usage, ending.Metadata = json.RawMessage("null"), json.RawMessage(`{"a":"\u001b[2J"}`)
	ending.Result = &lineage.Result{
		Summary: "half\x1b", MemoryIDs: []string{"m-1", "m-2"}, Artifacts: []lineage.Artifact{{ID: "a", MediaType: "text/plain", Bytes: 1}},
	}
	want := `session      s3
branch       coordinator.reviewer@3
tree         conversation-42
parent       main
agent        reviewer
context      0198c0de-7a11-7000-8000-000000000003
kind         branch, isolated, outlives its parent
state        active, canceling (canceled)
depth        1
created      14:03:07
grace until  14:03:37
result       half\x1b
artifact     a text/plain 1 byte
memory       m-1 m-2
metadata     {"a":"\u001b[2J"}
run  s3-run  active  14:03:07  4.170s
`
	if diff := cmp.Diff(want, describeSession(&ending, *after(4200 * time.Millisecond), style{})); diff != "" {
		t.Errorf("describeSession() (-want +got):\n%s", diff)
	}
	reserved := everyEnding()[1]
	reserved.Deadline = after(time.Minute)
	got := describeSession(&reserved, treeTime, style{})
	for _, line := range []string{"state     reserved\n", "deadline  14:04:07\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("describeSession() of a reservation =\n%s\nwant %q in it", got, line)
		}
	}
}
