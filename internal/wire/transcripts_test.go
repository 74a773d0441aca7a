package wire_test

import (
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// parsed is the HTTP+JSON request that a file request.http has: a line with
// the verb and the path, a version or none, and the body.
func parsed(text string) (q wire.RESTCall, body string) {
	head, body, _ := strings.Cut(text, "\n\n")
	line, header, _ := strings.Cut(strings.TrimSuffix(head, "\n"), "\n")
	verb, target, _ := strings.Cut(line, " ")
	q.Verb = verb
	q.Path, q.Query, _ = strings.Cut(target, "?")
	if header == "A2A-Version: 1.0" {
		q.Version = wire.V10
	}
	return q, body
}

// readFile reads a request of a transcript, whichever its binding.
func readFile(t *testing.T, in file) (r *wire.Request, body []byte) {
	t.Helper()
	var err error
	switch in.name {
	case "request.json":
		body = []byte(in.data)
		r, err = wire.Read(body)
	case "request.http":
		q, text := parsed(in.data)
		body = []byte(text)
		r, err = wire.ReadREST(q, body)
	default:
		t.Fatalf("a request is called %s", in.name)
	}
	if err != nil {
		t.Fatalf("reading %s = %v, want no error", in.data, err)
	}
	return r, body
}

func TestRequestTranscripts(t *testing.T) {
	t.Parallel()
	transcripts(t, "requests", func(t *testing.T, in file) []file {
		r, body := readFile(t, in)
		if got := withContext(r, r.ContextID); !same(got, body) {
			t.Errorf("Edited(context %q) = %s, want the body itself", r.ContextID, got)
		}
		recorded := map[string]any{
			"id": string(r.ID), "binding": r.Binding.String(), "method": r.Method, "version": r.Version.String(), "op": r.Op.String(),
			"messageId": r.MessageID, "contextId": r.ContextID, "taskId": r.TaskID, "parts": string(r.Parts()),
		}
		for k, v := range recorded {
			if v == "" {
				delete(recorded, k)
			}
		}
		if r.Push != nil {
			recorded["push"] = r.Push
		}
		context := "ctx-of-the-sidecar"
		forwarded := r.Edited(wire.Edit{Context: &context, PushURL: "http://sidecar.example/push/1"})
		return []file{lines("forwarded.json", forwarded), lines("recorded.json", indented(t, recorded))}
	})
}

// Every operation of either version has a transcript in either binding.
func TestRequestTranscriptsAreComplete(t *testing.T) {
	t.Parallel()
	type call struct {
		binding wire.Binding
		version wire.Version
		op      wire.Op
	}
	seen := make(map[call]bool)
	for _, path := range glob(t, "requests") {
		_, list := archive(t, path)
		r, _ := readFile(t, file{list[0].name, strings.TrimSuffix(list[0].data, "\n")})
		seen[call{r.Binding, r.Version, r.Op}] = true
	}
	for _, binding := range []wire.Binding{wire.JSONRPC, wire.REST} {
		for _, version := range []wire.Version{wire.V03, wire.V10} {
			for op := wire.OpSend; op <= wire.OpCard; op++ {
				if !seen[call{binding, version, op}] {
					t.Errorf("testdata/requests has no %v %v %v", binding, version, op)
				}
			}
		}
	}
}

func TestResponseTranscripts(t *testing.T) {
	t.Parallel()
	transcripts(t, "responses", func(t *testing.T, in file) []file {
		read := wire.ReadResponse
		if in.name == "result.json" {
			read = wire.ReadResult
		}
		var recorded [][]byte
		for data := range strings.SplitSeq(in.data, "\n") {
			u, err := read([]byte(data))
			if err != nil {
				t.Fatalf("reading %s = %v, want no error", data, err)
			}
			recorded = append(recorded, indented(t, summary(t, u)))
		}
		return []file{lines("recorded.json", recorded...)}
	})
}
