package sidecar_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/a2a-sidecar/a2a-sidecar"

// floors is the plan: a package imports only packages of lower floors, so
// siblings never meet.
var floors = map[string]int{
	"cmd/sidecar": 3, "bench": 3, "chaos": 3,

	// The lab, and the programs in it that this module's SDK is enough for.
	"interop": 3, "interop/go2/client": 3, "interop/go2/server": 3,
	"interop/internal/compare": 2, "interop/internal/tap": 1,

	"proxy": 2, "admin": 2, "internal/telemetry": 2,
	"sessions/redis": 2, "sessions/sqlite": 2, // one store each
	"internal/agents": 2, // real A2A servers for the demo, the tests and bench

	"sessions": 1, "adminapi": 1,

	"lineage": 0, "contextid": 0, "config": 0, "internal/wire": 0, "internal/sse": 0,
	"internal/grpcframe": 0, "internal/cardsig": 0,
}

// helpers are test help: only tests, bench, chaos and each other import them.
var helpers = map[string]bool{"internal/redistest": true, "internal/storetest": true}

// impure is what floor 0 must not know, each with what lies below it.
var impure = []string{"net/http", "database/sql", "modernc.org/sqlite", "github.com/redis", "go.opentelemetry.io"}

// fault says why the package from must not import what, or "".
func fault(from, what string, inTest bool) string {
	to, ours := strings.CutPrefix(what, module+"/")
	if !ours {
		floor, planned := floors[from]
		for _, p := range impure {
			if planned && floor == 0 && !inTest && (what == p || strings.HasPrefix(what, p+"/")) {
				return "floor 0 is pure"
			}
		}
		return ""
	}
	floor, planned := floors[to]
	testCode := inTest || helpers[from] || from == "bench" || from == "chaos"
	switch {
	case !planned && !helpers[to]:
		return "the package is not in the plan: add it to floors in imports_test.go"
	case helpers[to] && !testCode:
		return "test help is for tests"
	case helpers[to], testCode && floor < 3, inTest && floors[from] > 0, floor < floors[from]:
		return ""
	default:
		return fmt.Sprintf("imports point strictly down: floor %d imports floor %d", floors[from], floor)
	}
}

// TestImportPlan reads the sources itself: what a `go list` child reads is not
// part of the test cache's key, and build tags would hide files from it.
func TestImportPlan(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || strings.ContainsAny(name[:1], "._") || isModule(file)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := filepath.ToSlash(filepath.Dir(file))
		inTest := strings.HasSuffix(file, "_test.go")
		if _, ok := floors[from]; !ok && !helpers[from] && from != "." {
			t.Errorf("%s: the package %s is not in the plan: add it to floors in imports_test.go", file, from)
		}
		for _, spec := range f.Imports {
			what, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := fault(from, what, inTest); why != "" {
				t.Errorf("%s imports %s: %s", file, what, why)
			}
		}
		checked++
		return nil
	})
	if err != nil || checked < 2 {
		t.Fatalf("read %d files, error %v", checked, err)
	}
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func TestFault(t *testing.T) {
	const test, source = true, false
	for _, tt := range []struct {
		from, what string
		inTest     bool
		wrong      bool
	}{
		{"cmd/sidecar", module + "/proxy", source, false},
		{"cmd/sidecar", module + "/internal/agents", source, false},
		{"cmd/sidecar", module + "/internal/redistest", source, true},
		{"cmd/sidecar", module + "/internal/redistest", test, false},
		{"proxy", module + "/sessions", source, false},
		{"proxy", module + "/lineage", source, false},
		{"proxy", module + "/sessions/redis", source, true},
		{"proxy", module + "/sessions/redis", test, false},
		{"proxy", module + "/unheard", test, true},
		{"sessions", module + "/proxy", source, true},
		{"sessions", module + "/adminapi", source, true},
		{"lineage", module + "/contextid", source, true},
		{"lineage", module + "/contextid", test, false},
		{"lineage", module + "/cmd/sidecar", test, true},
		{"lineage", "net/http", source, true},
		{"lineage", "net/http/httptest", source, true},
		{"lineage", "net/http/httptest", test, false},
		{"config", "go.opentelemetry.io/otel", source, true},
		{"contextid", "github.com/redis/go-redis/v9", source, true},
		{"internal/wire", "database/sql", source, true},
		{"proxy", "net/http", source, false},
		{"bench", module + "/internal/redistest", source, false},
		{"chaos", module + "/internal/redistest", source, false},
		{"internal/storetest", module + "/internal/redistest", source, false},
		{"internal/storetest", module + "/sessions", source, false},
		{"internal/storetest", module + "/cmd/sidecar", source, true},
		{"internal/storetest", "net/http", source, false},
	} {
		if why := fault(tt.from, tt.what, tt.inTest); (why != "") != tt.wrong {
			t.Errorf("fault(%s, %s, test %t) = %q, want a fault: %t", tt.from, tt.what, tt.inTest, why, tt.wrong)
		}
	}
}
