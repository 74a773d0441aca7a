package redistest_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

// TestDiesWithParent kills a process that has launched servers.
func TestDiesWithParent(t *testing.T) {
	const variable = "REDISTEST_PARENT"
	if os.Getenv(variable) != "" {
		s, err := redistest.LaunchSentinel()
		if err != nil {
			t.Fatal(err)
		}
		master, err := s.Master()
		if err != nil {
			t.Fatal(err)
		}
		watchers, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "redis+sentinel://"), "/")
		if _, err := os.Stdout.WriteString("up " + master.Addr() + "," + watchers + "\n"); err != nil {
			t.Fatal(err)
		}
		select {} // until it is killed
	}
	redistest.Start(t) // skips where there is no redis-server

	parent := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
	parent.Env = append(os.Environ(), variable+"=1", "TMPDIR="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if killed := parent.Process.Kill(); killed != nil {
		t.Error(killed)
	}
	_ = parent.Wait() // it says that it was killed
	list, up := strings.CutPrefix(strings.TrimSpace(line), "up ")
	if err != nil || !up {
		t.Fatalf("the parent said %q, %v, want addresses", line, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for addr := range strings.SplitSeq(list, ",") {
		for {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				break
			}
			_ = c.Close() // it was only a question
			if time.Now().After(deadline) {
				t.Fatalf("%s answers after its parent's end", addr)
			}
		}
	}
}
