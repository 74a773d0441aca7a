package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// The archives in testdata/proto begin with the full method. Their first file
// is a message as ProtoJSON, for people to write and to review, or as the hex
// of what an SDK sent. The files that follow say what became of it.

func TestProtoRequestGolden(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t, "requests", sdkMethod.request) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			r := readProto(t, g.method.Name, g.msg)
			if got := r.Edited(wire.Edit{}); !same(got, g.msg) {
				t.Errorf("Edited(nothing) = %x, want the message itself", got)
			}
			id := "ctx-of-the-sidecar"
			forwarded := r.Edited(wire.Edit{Context: &id, PushURL: "http://127.0.0.1:8400/push/x"})
			recorded := map[string]any{
				"method": r.Method, "binding": r.Binding.String(), "version": r.Version.String(), "op": r.Op.String(),
				"messageId": r.MessageID, "contextId": r.ContextID, "taskId": r.TaskID, "senderSession": r.SenderSession,
				"parts": string(r.Parts()),
			}
			for k, v := range recorded {
				if v == "" {
					delete(recorded, k)
				}
			}
			if r.Push != nil {
				recorded["push"] = r.Push
			}
			g.check(t, append(views(t, "forwarded", g.method.request(), forwarded), recordedFile(t, recorded)))
		})
	}
}

func TestProtoAnswerGolden(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t, "answers", sdkMethod.response) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			m := g.method
			u, err := wire.ReadProtoResponse(m.Version, m.Op, g.msg)
			if err != nil {
				t.Fatalf("ReadProtoResponse(%x) = %v, want no error", g.msg, err)
			}
			forwarded, err := wire.RewriteProtoPush(m.Version, m.Op, g.msg, func(url string) string { return "http://original/of?" + url })
			if m.Op == wire.OpCard {
				forwarded, err = wire.RewriteProtoCard(m.Version, g.msg, func(binding, _ string) (string, bool) {
					return "http://127.0.0.1:8400/agents/x/" + binding, binding != "HTTP+JSON"
				})
			}
			if err != nil {
				t.Fatalf("rewriting %x: %v", g.msg, err)
			}
			var out []file
			if !same(forwarded, g.msg) {
				out = views(t, "forwarded", m.response(), forwarded)
			}
			g.check(t, append(out, recordedFile(t, summary(t, u))))
		})
	}
}

// goldenFile is an archive.
type goldenFile struct {
	name, path, comment string
	method              sdkMethod
	msg                 []byte // what its first file holds
	first, second       file   // its two views of that
	rest                []file
}

// goldens returns the archives in testdata/proto/dir, which are to be of every
// method there is.
func goldens(t *testing.T, dir string, empty func(sdkMethod) proto.Message) []goldenFile {
	t.Helper()
	methods := sdkMethods(t)
	seen := make(map[string]bool)
	var all []goldenFile
	for _, path := range glob(t, filepath.Join("proto", dir)) {
		comment, list := archive(t, path)
		name, _, _ := strings.Cut(comment, "\n")
		n := slices.IndexFunc(methods, func(m sdkMethod) bool { return m.Name == name })
		if n < 0 {
			t.Fatalf("%s begins with %q, want a method", path, name)
		}
		seen[name] = true
		g := goldenFile{name: filepath.Base(path), path: path, comment: comment, method: methods[n], first: list[0], rest: list[1:]}
		g.msg = decoded(t, g.first, empty(g.method))
		base, _, _ := strings.Cut(g.first.name, ".")
		for _, f := range views(t, base, empty(g.method), g.msg) {
			if f.name != g.first.name {
				g.second = f
			}
		}
		all = append(all, g)
	}
	for _, m := range methods {
		if !seen[m.Name] {
			t.Errorf("no archive in testdata/proto/%s is of %s", dir, m.Name)
		}
	}
	return all
}

// check compares the files after the first view, or writes them.
func (g goldenFile) check(t *testing.T, got []file) {
	t.Helper()
	got = append([]file{g.second}, got...)
	if !*update {
		if diff := cmp.Diff(g.rest, got, cmp.AllowUnexported(file{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", g.path, diff)
		}
		return
	}
	out := []byte(g.comment)
	for _, f := range append([]file{g.first}, got...) {
		out = fmt.Appendf(out, "-- %s --\n%s", f.name, f.data)
	}
	if err := os.WriteFile(g.path, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordedFile is what a record keeps.
func recordedFile(t *testing.T, v any) file {
	t.Helper()
	return file{"recorded.json", string(indented(t, v)) + "\n"}
}

// decoded returns the message that the first file of an archive holds.
func decoded(tb testing.TB, f file, empty proto.Message) []byte {
	tb.Helper()
	if strings.HasSuffix(f.name, ".hex") {
		msg, err := hex.DecodeString(strings.ReplaceAll(f.data, "\n", ""))
		if err != nil {
			tb.Fatalf("%s: %v", f.name, err)
		}
		return msg
	}
	if err := protojson.Unmarshal([]byte(f.data), empty); err != nil {
		tb.Fatalf("%s: %v", f.name, err)
	}
	return marshal(tb, empty)
}

// views returns a message as hex and as ProtoJSON.
func views(tb testing.TB, name string, empty proto.Message, msg []byte) []file {
	tb.Helper()
	var dump strings.Builder
	for line := range slices.Chunk(msg, 32) {
		fmt.Fprintf(&dump, "%x\n", line)
	}
	b, err := protojson.Marshal(unmarshal(tb, msg, empty))
	if err != nil {
		tb.Fatalf("protojson.Marshal(%x) = %v", msg, err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "  "); err != nil { // protojson's own spaces are random
		tb.Fatal(err)
	}
	return []file{{name + ".hex", dump.String()}, {name + ".json", pretty.String() + "\n"}}
}

// protoSeeds returns the messages of a method that are in testdata/proto/dir.
func protoSeeds(tb testing.TB, dir, method string) [][]byte {
	tb.Helper()
	var all [][]byte
	for _, path := range glob(tb, filepath.Join("proto", dir)) {
		comment, list := archive(tb, path)
		if name, _, _ := strings.Cut(comment, "\n"); name != method {
			continue
		}
		for _, m := range sdkMethods(tb) {
			if m.Name == method && dir == "requests" {
				all = append(all, decoded(tb, list[0], m.request()))
			} else if m.Name == method {
				all = append(all, decoded(tb, list[0], m.response()))
			}
		}
	}
	return all
}

// requestDiff compares requests, but for their bodies.
func requestDiff(want, got wire.Request) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(wire.Request{}))
}
