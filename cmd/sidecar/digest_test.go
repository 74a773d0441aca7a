package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ payload, want string }{
		{
			`{"parent":"p","edge":"spawn","kind":"worker","agent":"w","contextId":"c1","depth":1,"isolated":true,"inherit":"none"}`,
			"w worker isolated ctx c1",
		},
		{`{"run":"r","caller":"c","messageId":"m","taskId":"t1","method":"message/send","parts":[{"kind":"text","text":"hello"},{"kind":"text","text":"you"}],"partCount":2}`, `task t1 "hello you"`},
		{`{"run":"r","taskId":"t1","contextId":"c1","state":"working","message":{"parts":[{"text":"thinking"}],"partCount":1}}`, `working task t1 "thinking"`},
		{`{"run":"r","state":"failed","reason":"lost"}`, "failed lost"},
		{`{"state":"completed","result":{"status":"completed","summary":"done"}}`, `completed "done"`},
		{`{"agent":"w","messageId":"m","reason":"CHILDREN_LIMIT","limit":"maxChildren","value":8,"count":8}`, "w CHILDREN_LIMIT maxChildren 8 of 8"},
		{`{"run":"r","contextId":"c1","open":11}`, "11 runs at once ctx c1"},
		{`{"contextId":"c2","alias":true}`, "alias ctx c2"},
		{`{"id":"a","name":"report","mediaType":"text/plain","bytes":1,"sha256":"x","parts":[]}`, "report text/plain 1 byte"},
		{
			`{"parent":"p","kind":"branch","agent":"w","contextId":"c1","reserved":true,"abandon":true}`, "w branch reserved ctx c1",
		},
		{`{"run":"r","reason":"requested"}`, "requested"},
		{`{"reason":"orphaned","graceMs":30000}`, "orphaned grace 30.0s"},
		{`{"session":"s","agent":"w","state":"failed","reason":"lost","result":{"status":"failed","summary":"half"}}`, `w failed lost "half"`},
		{`{"text":"They want it\nby Friday."}`, `"They want it\nby Friday."`},
		{`{"own": {"x": 1}}`, `{"own":{"x":1}}`},
		{`{"parts":"a pattern broke the JSON"}`, `{"parts":"a pattern broke the JSON"}`},
		{`not JSON`, `not JSON`},
		{``, ``},
		{`{"state":"\u001b[2J\u009b","parts":[{"text":"\u001b]0;owned\u0007\nnew line\u202e\u009b31m"}]}`, `\x1b[2J\u009b "\x1b]0;owned\a\nnew line\u202e\u009b31m"`},
	} {
		if got := digest(json.RawMessage(tt.payload), 0, style{}); got != tt.want {
			t.Errorf("digest(%s) = %s, want %s", tt.payload, got, tt.want)
		}
	}
}

func TestDigestIsShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("日本", 500)
	for _, payload := range []string{`{"parts":[{"text":"` + long + `"}]}`, `{"x":"` + long + `"}`, `"` + long} {
		if got := digest(json.RawMessage(payload), 0, style{}); columns(got) > maxQuoted+2 {
			t.Errorf("digest of %d bytes has %d columns, want at most %d", len(payload), columns(got), maxQuoted+2)
		}
		if got := digest(json.RawMessage(payload), 30, style{}); columns(got) > 30 {
			t.Errorf("digest in 30 columns has %d", columns(got))
		}
	}
}

// Where room is short, ids leave some for what was said.
func TestDigestInLittleRoom(t *testing.T) {
	t.Parallel()
	payload := `{"taskId":"01a1f8b1-9293-75dd-a48d-d771a795ada1","state":"completed","message":{"parts":[{"text":"all is well"}]}}`
	if got, want := digest(json.RawMessage(payload), 50, style{}), `completed task 01a1f8…95ada1 "all is well"`; got != want {
		t.Errorf("digest() = %s, want %s", got, want)
	}
}

// Lines of two pages stand under each other, and each event has exactly one.
func TestDrawEvents(t *testing.T) {
	t.Parallel()
	e := &env{now: func() time.Time { return treeTime }, lookupEnv: noVars, stdout: &strings.Builder{}}
	p := &eventPrinter{env: e, style: style{}}
	first := lineage.Event{Seq: 1, Time: treeTime, Type: lineage.EventSpawned, Branch: "coordinator.worker@1", Payload: json.RawMessage(`{"agent":"worker"}`)}
	second := lineage.Event{
		Seq: 2, Time: treeTime.Add(1234 * time.Millisecond), Type: "own\x1b[2J", Branch: "x\n", Payload: json.RawMessage(`{"parts":[{"text":"a\nb"}]}`),
	}
	for _, page := range [][]lineage.Event{{first}, {second}} {
		if err := p.print(page); err != nil {
			t.Fatal(err)
		}
	}
	want := `    1  14:03:07.000  coordinator.worker@1  session.spawned    worker
    2  14:03:08.234  x\n                   own\x1b[2J         "a\nb"
`
	if diff := cmp.Diff(want, e.stdout.(*strings.Builder).String()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
