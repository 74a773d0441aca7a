package redis_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

const document = "../../docs/redis.md"

var update = flag.Bool("update", false, "copy the comment of keys.go into docs/redis.md")

// TestSchemaIsDocumented: docs/redis.md shows the schema as keys.go spells it.
func TestSchemaIsDocumented(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- keys.go -->\n```text\n", "```\n"
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Name.Name == "keyring" {
			want = g.Doc.Text()
		}
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed || want == "" {
		t.Fatalf("%s has a block %v, keys.go %d bytes on type keyring; want both", document, ok && closed, len(want))
	}
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from keys.go; to copy it: go test ./sessions/redis -run Documented -update\n%s", document, diff)
	}
}

// TestDocumentedRights: the rights that docs/redis.md gives a user suffice.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	const commands, keys, channels = "+@all -@admin -@dangerous +info", "~a2a:*", "&a2a:*"
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range []string{"`" + commands + "`", "`" + keys + "`", "`" + channels + "`"} {
		if !strings.Contains(string(doc), right) {
			t.Errorf("%s does not give %s", document, right)
		}
	}
	srv := redistest.Start(t)
	user := []any{"acl", "setuser", "sidecar", "on", ">secret", keys, channels}
	for right := range strings.FieldsSeq(commands) {
		user = append(user, right)
	}
	if err := srv.Client(t).Do(t.Context(), user...).Err(); err != nil {
		t.Fatal(err)
	}
	s := openURL(t, "redis://sidecar:secret@"+srv.Addr(), redis.Options{})
	told := watch(t, s)
	a := call("r", 1)
	a.Limits.MaxConcurrent, a.TaskID = 1, "task-1"
	g := mustAdmit(t, s, a)
	other := openURL(t, "redis://sidecar:secret@"+srv.Addr(), redis.Options{})
	op := &sessions.Op{Change: &sessions.Change{Root: "r", Session: g.Session.ID, Verb: lineage.VerbCancel}}
	if other.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
		t.Fatal(op.Err)
	}
	awaitCancel(t, told, other, g)
	if _, err := s.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	tell(t, s, end(a))
	if _, err := s.Secret(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Trees(t.Context(), sessions.TreeQuery{}); err != nil {
		t.Error(err)
	}
	if all, err := sessions.AllSessions(t.Context(), s, "r"); err != nil || len(all) != 2 {
		t.Errorf("Sessions(r) = %d, %v, want 2", len(all), err)
	}
	if page, err := s.Events(t.Context(), "r", sessions.EventQuery{All: true}); err != nil || len(page.Events) == 0 {
		t.Errorf("Events(r) = %d, %v, want some", len(page.Events), err)
	}
}

// BenchmarkMemory measures what the server keeps for a call in a session of its
// own, from admission to end, and for each further event.
func BenchmarkMemory(b *testing.B) {
	const events = 2000
	payload := []byte(`{"run":"run-1","text":"` + strings.Repeat("x", 200) + `"}`)
	for _, tree := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("trees of %d sessions", tree), func(b *testing.B) {
			srv := redistest.Start(b)
			s, rdb := open(b, srv, redis.Options{}), srv.Client(b)
			apply := func(op *sessions.Op) {
				if s.Apply(b.Context(), []*sessions.Op{op}); op.Err != nil {
					b.Fatal(op.Err)
				}
			}
			empty, n := used(b, rdb), 0
			for b.Loop() {
				a := call(fmt.Sprint("root-", n/tree), n)
				n++
				apply(&sessions.Op{Admit: a})
				apply(&sessions.Op{Progress: end(a)})
			}
			full := used(b, rdb)
			for i := range events {
				apply(&sessions.Op{Progress: &sessions.Progress{
					Root: "root-0", Session: call("root-0", 0).SessionID, Agent: "worker",
					Events: []sessions.Draft{{ID: fmt.Sprint("event-", i), Type: lineage.EventStatus, Payload: payload}},
				}})
			}
			b.ReportMetric(float64(full-empty)/float64(n), "bytes/session")
			b.ReportMetric(float64(used(b, rdb)-full)/events-float64(len(payload)), "bytes/event+payload")
		})
	}
}

// used returns how many bytes the server uses.
func used(b *testing.B, rdb *goredis.Client) int64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
