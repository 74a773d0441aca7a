package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// sizes are those of the messages in benchmarks.
var sizes = []struct {
	name  string
	bytes int
}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"1MB", 1 << 20}, {"10MB", 10 << 20}}

// params is what a send of about that many bytes carries, with the context
// near its end, as real ones have it.
func params(size int) []byte {
	const frame = `{"configuration":{"acceptedOutputModes":["text/plain"],"blocking":true},"message":{"kind":"message","messageId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae56","role":"user","parts":[%s],"taskId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae57","contextId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae58","metadata":{"adk_session_id":"01a1f815-682b-7f5c-8a38-5c1f63b0ae59","adk_user_id":"u"}}}`
	var parts []string
	for n := len(frame) + 100; n < size; n += 1000 {
		parts = append(parts, `{"kind":"text","text":"`+strings.Repeat("lorem ipsum ", min(size-n, 1000)/12)+`"}`)
	}
	return fmt.Appendf(nil, frame, strings.Join(parts, ","))
}

// envelope is params in a JSON-RPC request.
func envelope(params []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"01a1f815-682b-7f5c-8a38-5c1f63b0ae55","method":"message/send","params":%s}`, params)
}

func benchmarkReadEdit(b *testing.B, read reader, in []byte) {
	b.Helper()
	id := "01a1f815-682b-7f5c-8a38-5c1f63b0aeff"
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := read(in)
		if err != nil {
			b.Fatal(err)
		}
		if len(r.Edited(wire.Edit{Context: &id})) != len(in) {
			b.Fatal("the edit is not one of an id")
		}
	}
}

func BenchmarkReadEdit(b *testing.B) {
	rest := readerOf(wire.RESTCall{Verb: "POST", Path: "/base/v1/message:send"})
	for _, size := range sizes {
		in := params(size.bytes)
		b.Run("JSONRPC/"+size.name, func(b *testing.B) { benchmarkReadEdit(b, wire.Read, envelope(in)) })
		b.Run("REST/"+size.name, func(b *testing.B) { benchmarkReadEdit(b, rest, in) })
	}
}

// One part of a file, as base64: one long string.
func BenchmarkReadEditFile(b *testing.B) {
	in := fmt.Appendf(nil, `{"message":{"messageId":"m","parts":[{"raw":"%s"}],"contextId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae58"}}`, strings.Repeat("QUJD", 10<<20/4))
	benchmarkReadEdit(b, readerOf(wire.RESTCall{Verb: "POST", Path: "/message:send"}), in)
}

func BenchmarkMatchREST(b *testing.B) {
	for _, path := range []string{"/v1/message:send", "/base/tenant/tasks/01a1f815-682b-7f5c-8a38-5c1f63b0ae57:cancel", "/assets/app.js"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wire.MatchREST("POST", path)
			}
		})
	}
}
