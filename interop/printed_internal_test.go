package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	idA = "01900000-0000-7000-8000-00000000000a"
	idB = "01900000-0000-7000-8000-00000000000b"
)

func TestNormal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		isolated, unordered bool
		a, b                []string
		same                bool
	}{
		"other ids": {
			a:    []string{`{"step":"send","contextId":"` + idA + `","taskId":"1"}`, `{"step":"get","contextId":"` + idA + `","taskId":"1"}`},
			b:    []string{`{"step":"send","contextId":"` + idB + `","taskId":"2"}`, `{"step":"get","contextId":"` + idB + `","taskId":"2"}`},
			same: true,
		},
		"another context in the second step": {
			a: []string{`{"contextId":"` + idA + `"}`, `{"contextId":"` + idA + `"}`},
			b: []string{`{"contextId":"` + idA + `"}`, `{"contextId":"` + idB + `"}`},
		},
		"which is what isolation is for": {
			isolated: true,
			a:        []string{`{"contextId":"` + idA + `"}`, `{"contextId":"` + idA + `"}`},
			b:        []string{`{"contextId":"` + idA + `"}`, `{"contextId":"` + idB + `"}`},
			same:     true,
		},
		"no context where there was one": {
			isolated: true,
			a:        []string{`{"contextId":"` + idA + `"}`},
			b:        []string{`{"step":""}`},
		},
		"another task": {
			isolated: true,
			a:        []string{`{"taskId":"1"}`, `{"taskId":"1"}`},
			b:        []string{`{"taskId":"1"}`, `{"taskId":"2"}`},
		},
		"ids, addresses and times in texts": {
			a:    []string{`{"error":"task ` + idA + ` at http://127.0.0.1:80/x on 2026-01-02T03:04:05.6Z"}`},
			b:    []string{`{"error":"task ` + idB + ` at http://127.0.0.3:8400/agents/isolated/x on 2026-01-02T03:04:07+01:00"}`},
			same: true,
		},
		"another error": {a: []string{`{"error":"task not found"}`}, b: []string{`{"error":"server error"}`}},
		"another state": {a: []string{`{"state":"working"}`}, b: []string{`{"state":"completed"}`}},
		"a step less":   {a: []string{`{"step":"a"}`, `{"step":"b"}`}, b: []string{`{"step":"a"}`}},
		"steps that race": {
			a:    []string{`{"step":"a","taskId":"1"}`, `{"step":"b","taskId":"2"}`, `{"step":"a","state":"working"}`},
			b:    []string{`{"step":"b","taskId":"4"}`, `{"step":"a","taskId":"3"}`, `{"step":"a","state":"working"}`},
			same: true,
		},
		"lines of one step": {a: []string{`{"step":"a","text":"1"}`, `{"step":"a","text":"2"}`}, b: []string{`{"step":"a","text":"2"}`, `{"step":"a","text":"1"}`}},
		"calls that race": {
			unordered: true,
			a:         []string{`{"text":"1","contextId":"` + idA + `"}`, `{"text":"2","contextId":"` + idB + `"}`},
			b:         []string{`{"text":"2","contextId":"` + idA + `"}`, `{"text":"1","contextId":"` + idB + `"}`},
			same:      true,
		},
		"no JSON": {a: []string{"[ERROR] 1", `{"step":"a"}`}, b: []string{`{"step":"a"}`, "[ERROR] 2"}, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := normal(tt.a, tt.isolated, tt.unordered), normal(tt.b, tt.isolated, tt.unordered)
			if diff := cmp.Diff(a, b); (diff == "") != tt.same {
				t.Errorf("normal gives (-a +b):\n%s\nwant the same: %t", diff, tt.same)
			}
		})
	}
}
