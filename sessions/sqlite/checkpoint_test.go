package sqlite_test

import (
	"os"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// However calls keep coming, the log begins anew, and nothing is lost.
func TestLogBeginsAnew(t *testing.T) {
	t.Parallel()
	path := file(t)
	s, err := sqlite.Open(t.Context(), sqlite.Hurried(sqlite.Options{Path: path}))
	if err != nil {
		t.Fatal(err)
	}
	began := func() [4]byte { // how often: in the header of the log
		t.Helper()
		raw, err := os.ReadFile(path + "-wal")
		if err != nil || len(raw) < 16 {
			t.Fatalf("reading the log: %d bytes, %v", len(raw), err)
		}
		return [4]byte(raw[12:16])
	}
	admit(t, s, call("root"))
	calls := 1
	for range 2 {
		for first := began(); began() == first; calls++ {
			if calls == 5000 {
				t.Fatal("the log has not begun anew")
			}
			a := call("root")
			a.Limits.MaxSessions = 0
			end(t, s, admit(t, s, a))
		}
	}
	if got, want := len(readSessions(t, s, "root")), calls+1; got != want {
		t.Errorf("Sessions(root) = %d sessions, want %d", got, want)
	}
	closeStore(t, s)
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("after Close, Stat(the log) = %v, want that there is none", err)
	}
	again := open(t, sqlite.Options{Path: path})
	if got, want := len(readSessions(t, again, "root")), calls+1; got != want {
		t.Errorf("Sessions(root) after reopening = %d sessions, want %d", got, want)
	}
}
