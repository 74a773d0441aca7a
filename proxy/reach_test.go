package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The connection that a look makes is the one that the call goes over.
func TestFirstCallNeedsOneConnection(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	agent := &fake{}
	agent.Server = httptest.NewUnstartedServer(agent.handler(says(message10)))
	agent.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	agent.Start()
	t.Cleanup(agent.Close)
	w := newWorld(t, isolated("worker", agent.URL))
	for i := range 3 {
		w.post(t, send10("m"+itoa(i), ""))
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("3 calls after one another opened %d connections, want 1", n)
	}
}

func TestParallelFirstCalls(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	a := isolated("worker", agent.URL)
	a.Session.Limits = lineage.Limits{}
	w := newWorld(t, a)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if got, err := w.try(t, http.MethodPost, "/agents/worker", send10("m"+itoa(i), "")); err != nil || got.body != message10 {
				t.Errorf("call %d = %s, %v", i, got.body, err)
			}
		})
	}
	wg.Wait()
	if n := len(agent.received()); n != 100 {
		t.Errorf("agent got %d calls, want 100", n)
	}
}

// An agent may come late, go, and come again.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	url := nowhere(t)
	w := newWorld(t, isolated("worker", url))
	serve := func() *http.Server {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: says(message10)}
		go func() { _ = s.Serve(l) }()
		return s
	}
	for i := range 3 {
		if e := readError(t, w.post(t, send10("down"+itoa(i), "")), false); e.Error.Code != -32052 {
			t.Errorf("call %d before the agent is there = %+v, want -32052", i, e)
		}
		s := serve()
		for _, id := range []string{"a", "b"} {
			if got := w.post(t, send10(id+itoa(i), "")); got.body != message10 {
				t.Errorf("call %d to the agent = %s", i, got.body)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		within(t, "the sidecar has noticed", func() bool { return w.proxy.Connections("worker") == 0 })
	}
}

// After Close nothing is left: no connection, no goroutine.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	agent := newFake(t, says(message10))
	w := newWorld(t, isolated("worker", agent.URL), isolated("idle", agent.URL))
	w.post(t, send10("m1", ""))
	w.do(t, http.MethodGet, "/agents/idle"+newPath, "")
	w.close()
	within(t, "all connections are closed", func() bool { return w.proxy.Connections("worker")+w.proxy.Connections("idle") == 0 })
	agent.Close()
	goleak.VerifyNone(t, before)
}

// Agents behind TLS are reached likewise; one that cannot prove who it is
// hears nothing, and the call counts as one that never left.
func TestTLS(t *testing.T) {
	t.Parallel()
	agent := &fake{}
	agent.Server = httptest.NewUnstartedServer(agent.handler(says(message10)))
	agent.EnableHTTP2 = true
	agent.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	agent.StartTLS()
	t.Cleanup(agent.Close)
	roots := x509.NewCertPool()
	roots.AddCert(agent.Certificate())
	good, bad := isolated("worker", agent.URL), isolated("stranger", agent.URL)
	good.TLS = &tls.Config{RootCAs: roots}
	w := newWorld(t, good, bad)
	for i := range 3 {
		if got := w.post(t, send10("m"+itoa(i), "")); got.body != message10 {
			t.Errorf("call %d = %s", i, got.body)
		}
	}
	got := w.do(t, http.MethodPost, "/agents/stranger", send10("m", ""), "x-kagent-root-context-id", "top")
	if e := readError(t, got, false); e.Error.Message != "agent stranger cannot be reached; retry later" {
		t.Errorf("call to an agent with an unknown certificate = %s", got.body)
	}
	w.state(t, "top", lineage.Failed, lineage.ReasonUnreachable)
	if n := len(agent.received()); n != 3 {
		t.Errorf("agent got %d calls, want 3", n)
	}
}
