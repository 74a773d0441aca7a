package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Engine is a program that speaks Redis's protocol, by the name of its command.
type Engine string

// The engines. REDIS_SERVER and VALKEY_SERVER are paths that win over PATH, and
// REQUIRE_REDIS and REQUIRE_VALKEY, if 1, make a test fail that would be skipped.
const (
	Redis  Engine = "redis-server"
	Valkey Engine = "valkey-server"
)

// errNoServer tells that this machine has no such engine.
var errNoServer = errors.New("not installed")

// brand is the engine's name as variables and packages spell it.
func (e Engine) brand() string { return strings.TrimSuffix(string(e), "-server") }

func (e Engine) find() (string, error) {
	variable := strings.ToUpper(e.brand()) + "_SERVER"
	if bin := os.Getenv(variable); bin != "" {
		return bin, nil
	}
	bin, err := exec.LookPath(string(e))
	if err != nil {
		return "", fmt.Errorf("%s is %w: run `make %[3]s` (or `apt-get install %[1]s`, `brew install %[3]s`), or set %[4]s to its path",
			e, errNoServer, e.brand(), variable)
	}
	return bin, nil
}

func (e Engine) required() bool { return os.Getenv("REQUIRE_"+strings.ToUpper(e.brand())) == "1" }

// started returns what launch has started, to be closed when tb ends. Without
// the engine tb is skipped, or fails if it is required.
func started[T interface{ Close() }](tb testing.TB, e Engine, launch func() (T, error)) T {
	tb.Helper()
	s, err := launch()
	if errors.Is(err, errNoServer) && !e.required() {
		tb.Skip(err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}
