package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

var update = flag.Bool("update", false, "rewrite testdata from what the code does now")

// file is one file of a txtar archive.
type file struct{ name, data string }

// archive reads a txtar archive: a comment, then files, each after a line
// "-- name --".
func archive(tb testing.TB, path string) (comment string, list []file) {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		name, isName := strings.CutPrefix(line, "-- ")
		switch {
		case isName:
			list = append(list, file{name: strings.TrimSuffix(name, " --\n")})
		case len(list) == 0:
			comment += line
		default:
			list[len(list)-1].data += line
		}
	}
	if len(list) == 0 {
		tb.Fatalf("%s has no files", path)
	}
	return comment, list
}

// transcripts runs test on every archive in testdata/dir, whose first file is
// what an SDK sent. Test returns the files that must follow it.
func transcripts(t *testing.T, dir string, test func(t *testing.T, in file) []file) {
	t.Helper()
	for _, path := range glob(t, dir) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			comment, list := archive(t, path)
			got := test(t, file{list[0].name, strings.TrimSuffix(list[0].data, "\n")})
			if *update {
				out := []byte(comment)
				for _, f := range append(list[:1], got...) {
					out = fmt.Appendf(out, "-- %s --\n%s", f.name, f.data)
				}
				if err := os.WriteFile(path, out, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(list[1:], got, cmp.AllowUnexported(file{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func glob(tb testing.TB, dir string) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("Glob(testdata/%s) = %v, %v, want files", dir, paths, err)
	}
	return paths
}

// seeds returns what the SDKs sent, from every archive in testdata/dir whose
// first file has that name.
func seeds(tb testing.TB, dir, name string) []string {
	tb.Helper()
	var all []string
	for _, path := range glob(tb, dir) {
		if _, list := archive(tb, path); list[0].name == name {
			all = append(all, strings.TrimSpace(list[0].data))
		}
	}
	if len(all) == 0 {
		tb.Fatalf("testdata/%s has no %s", dir, name)
	}
	return all
}

// lines makes a file of bodies, one on a line.
func lines(name string, bodies ...[]byte) file {
	return file{name, string(bytes.Join(bodies, []byte("\n"))) + "\n"}
}

// indented is v as JSON for people to review.
func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOp(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for op := wire.OpOther; op <= wire.OpCard; op++ {
		name := op.String()
		if name == "" || seen[name] {
			t.Errorf("Op(%d).String() = %q, want a name of its own", op, name)
		}
		seen[name] = true
		if got, want := op.Streaming(), op == wire.OpStream || op == wire.OpSubscribe; got != want {
			t.Errorf("%v.Streaming() = %v, want %v", op, got, want)
		}
		if got, want := op.Sends(), op == wire.OpSend || op == wire.OpStream; got != want {
			t.Errorf("%v.Sends() = %v, want %v", op, got, want)
		}
	}
	if got, want := wire.Op(200).String(), "other"; got != want {
		t.Errorf("Op(200).String() = %q, want %q", got, want)
	}
}
