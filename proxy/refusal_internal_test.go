package proxy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// answers is how each reason is told in each binding.
var answers = map[lineage.Reason]struct {
	rpc, status int
	grpc        code.Code
	retry       bool
}{
	lineage.ChildrenLimit:    {-32050, http.StatusTooManyRequests, code.Code_RESOURCE_EXHAUSTED, true},
	lineage.FanOutLimit:      {-32050, http.StatusTooManyRequests, code.Code_RESOURCE_EXHAUSTED, true},
	lineage.ConcurrencyLimit: {-32050, http.StatusTooManyRequests, code.Code_RESOURCE_EXHAUSTED, true},
	lineage.DepthLimit:       {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.SessionsLimit:    {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.LoopLimit:        {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.LeafSession:      {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.ParentEnded:      {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.SessionEnded:     {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.ContextForbidden: {-32051, http.StatusBadRequest, code.Code_FAILED_PRECONDITION, false},
	lineage.StoreUnavailable: {-32052, http.StatusServiceUnavailable, code.Code_UNAVAILABLE, true},
	lineage.AgentUnreachable: {-32052, http.StatusServiceUnavailable, code.Code_UNAVAILABLE, true},
}

// Every reason that lineage has is in answers, and answered like that, in words.
func TestEveryReasonIsAnswered(t *testing.T) {
	t.Parallel()
	reasons := reasonsOf(t, "../lineage/limits.go")
	if len(reasons) != len(answers) {
		t.Errorf("lineage has %d reasons, and answers %d", len(reasons), len(answers))
	}
	for _, reason := range reasons {
		want, ok := answers[reason]
		if !ok {
			t.Errorf("reason %s is not in answers", reason)
			continue
		}
		r := &lineage.Refusal{Reason: reason}
		f := refusal(r)
		if f.code != want.rpc || f.status != want.status || f.grpc != want.grpc || f.retry != want.retry || f.rpcHTTP != http.StatusOK {
			t.Errorf("refusal(%s) = %+v, want %+v", reason, f, want)
		}
		if f.reason != reason || f.message == string(reason) || f.message != r.Error() {
			t.Errorf("refusal(%s) says %s %q, want it in words", reason, f.reason, f.message)
		}
	}
}

// reasonsOf reads the constants of type Reason out of a source file.
func reasonsOf(t *testing.T, file string) (all []lineage.Reason) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			for _, v := range spec.Values {
				reason, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, lineage.Reason(reason))
			}
		}
		return true
	})
	return all
}

func TestSessionEndedSaysWhy(t *testing.T) {
	t.Parallel()
	u := &upstream{Agent: Agent{Session: sessions.Agent{Name: "worker"}}}
	for reason, why := range map[string]string{
		lineage.ReasonCanceled: "it was canceled", lineage.ReasonOrphaned: "its parent has ended", lineage.ReasonExpired: "its time is over",
	} {
		f := sessionEnded(u, &sessions.Ended{Session: "s", Reason: reason})
		if want := "session s was ended: " + why + "; retrying does not help"; f.message != want || f.metadata["session"] != "s" || f.metadata["agent"] != "worker" {
			t.Errorf("sessionEnded(%s) = %q %v, want %q of session s", reason, f.message, f.metadata, want)
		}
	}
}
