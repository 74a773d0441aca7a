package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// grpcCard is a card with its gRPC interface at a URL.
func grpcCard(url string) string {
	return `{"supportedInterfaces":[{"url":"http://agent/rpc","protocolBinding":"JSONRPC"},{"url":"` + url + `","protocolBinding":"GRPC"}]}`
}

// cardServer serves cards, and notes which were asked for: version and path.
type cardServer struct {
	*upstream
	mu    sync.Mutex
	asked []string
}

func newCardServer(t *testing.T, answer http.HandlerFunc) *cardServer {
	t.Helper()
	c := &cardServer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.asked = append(c.asked, r.Header.Get("A2A-Version")+" "+r.URL.Path)
		c.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.upstream = newUpstream(Agent{URL: at})
	t.Cleanup(c.close)
	return c
}

// find looks for the gRPC interface and returns its URL, or what went wrong.
func (c *cardServer) find(t *testing.T, v wire.Version) string {
	t.Helper()
	found, err := c.grpcChannel(t.Context(), v, http.Header{"Authorization": {"Bearer x"}, "A2a-Version": {"7"}})
	if err != nil {
		return err.Error()
	}
	return found.url.String()
}

// askedFor returns what was asked for since the last time.
func (c *cardServer) askedFor() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

func TestGRPCTarget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ agent, raw, want string }{
		{"http://host:80", "agent:9001", "http://host:9001"},
		{"https://host", "agent:9001", "https://host:9001"},
		{"http://host", "https://agent", "https://host"},
		{"https://host", "http://agent:9001/x", "http://host:9001"},
		{"https://host", "grpc://agent:9001", "http://host:9001"},
		{"http://host", "grpcs://agent:9001", "https://host:9001"},
		{"http://host", "GRPCS://agent", "https://host"},
		{"http://host", "dns:///agent:9001", "http://host:9001"},
		{"http://host", "dns:///[::1]:9001", "http://host:9001"},
		{"http://host", "dns:///agent", "http://host"},
		{"http://host", "dns://8.8.8.8:53/agent:9001", "http://host:9001"},
		{"http://host", "dns:agent:9001", "http://host:9001"},
		{"http://host", "dns:[::1]:9001", "http://host:9001"},
		{"http://host", "dns:9001", "http://host:9001"},
		{"http://[::1]:1", "[::1]:9001", "http://[::1]:9001"},
		{"http://[::1]:1", "http://agent", "http://[::1]"},
		{"http://host", "agent:70000", ""},
		{"http://host", "dns:///agent:x", ""},
		{"http://host", "http://a b", ""},
	} {
		at, err := url.Parse(tt.agent)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if to := newUpstream(Agent{URL: at}).grpcTarget(tt.raw); to != nil {
			got = to.String()
		}
		if got != tt.want {
			t.Errorf("grpcTarget(%q) of %s = %q, want %q", tt.raw, tt.agent, got, tt.want)
		}
	}
}

// Each version has a card of its own, and a place; one that has none takes the
// other's.
func TestGRPCPlaceOfEachVersion(t *testing.T) {
	t.Parallel()
	c := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			t.Error("the card is asked for without the call's credentials")
		}
		_, _ = w.Write([]byte(grpcCard(map[string]string{"0.3": "agent:9003", "1.0": "agent:9010"}[r.Header.Get("A2A-Version")])))
	})
	for range 2 {
		for v, port := range map[wire.Version]string{wire.V03: "9003", wire.V10: "9010"} {
			if got := c.find(t, v); got != "http://127.0.0.1:"+port {
				t.Errorf("place of %s = %s, want port %s", v, got, port)
			}
		}
	}
	if got := c.askedFor(); len(got) != 2 {
		t.Errorf("asked for %q, want one card of each version", got)
	}

	one := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		card := grpcCard("agent:9003")
		if r.Header.Get("A2A-Version") == "1.0" {
			card = `{}`
		}
		_, _ = w.Write([]byte(card))
	})
	for _, v := range []wire.Version{wire.V03, wire.V10} {
		if got := one.find(t, v); got != "http://127.0.0.1:9003" {
			t.Errorf("place of %s = %s, want the only one", v, got)
		}
	}
	if diff := cmp.Diff([]string{"0.3 " + cardPath, "1.0 " + cardPath}, one.askedFor()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// Versions at one place share its connections, until one of them moves.
func TestGRPCPlacesAreShared(t *testing.T) {
	t.Parallel()
	u := newUpstream(Agent{URL: &url.URL{Scheme: "http", Host: "host"}})
	u.learnGRPC(wire.V03, "a:1")
	u.learnGRPC(wire.V10, "http://b:1")
	first := u.grpc.known(wire.V03)
	if first != u.grpc.known(wire.V10) || len(u.grpc.all()) != 1 {
		t.Error("two versions at one place have connections of their own")
	}
	u.learnGRPC(wire.V10, "a:2")
	if got := u.grpc.known(wire.V10); got == first || got.url.Port() != "2" || u.grpc.known(wire.V03) != first {
		t.Errorf("places = %v, want 1.0 to have moved alone", u.grpc.all())
	}
	u.learnGRPC(wire.V10, "a b")
	if got := u.grpc.known(wire.V10); got.url.Port() != "2" {
		t.Errorf("place = %s, want it to stay when a card names none", got.url)
	}
}

// The card is read as getCard reads it: at either path, packed or not, the first
// interface.
func TestGRPCPlaceIsReadFromCards(t *testing.T) {
	t.Parallel()
	two := strings.Replace(grpcCard("a b"), "]}", `,{"url":"agent:9001","protocolBinding":"grpc"},{"url":"agent:9002","protocolBinding":"GRPC"}]}`, 1)
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"first of two", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(two)) }, "http://127.0.0.1:9001"},
		{"packed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte(grpcCard("agent:9001")))
			_ = z.Close()
		}, "http://127.0.0.1:9001"},
		{"packed badly", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("x"))
		}, "its card cannot be read: "},
		{"at the old path", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != oldCardPath {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(grpcCard("agent:9001")))
		}, "http://127.0.0.1:9001"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<")) }, "its card cannot be read: agent card is not JSON: syntax error at byte 0"},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), maxEdited+1)) }, "its card is larger than 4194304 bytes"},
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "its card cannot be read: HTTP status 403"},
		{"none", http.NotFound, errNoGRPC.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := newCardServer(t, tt.answer).find(t, wire.V10); !strings.HasPrefix(got, tt.want) {
				t.Errorf("place = %s, want %s", got, tt.want)
			}
		})
	}
}

// A card that names no gRPC interface is asked for again after a while; an agent
// that could not say is asked again at once.
func TestGRPCPlaceThatCardsDoNotName(t *testing.T) {
	t.Parallel()
	card, status := `{}`, http.StatusOK
	c := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(card))
	})
	now := time.Now()
	c.grpc.now = func() time.Time { return now }
	ask := func(v wire.Version, want string, asked ...string) {
		t.Helper()
		if got := c.find(t, v); got != want {
			t.Errorf("place of %s = %s, want %s", v, got, want)
		}
		if diff := cmp.Diff(asked, c.askedFor()); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
	}
	ask(wire.V10, errNoGRPC.Error(), "1.0 "+cardPath)
	ask(wire.V10, errNoGRPC.Error())
	ask(wire.V03, errNoGRPC.Error(), "0.3 "+cardPath)
	now = now.Add(noneFor - 1)
	ask(wire.V10, errNoGRPC.Error())
	now = now.Add(1)
	status = http.StatusNotFound
	ask(wire.V10, errNoGRPC.Error(), "1.0 "+cardPath, "1.0 "+oldCardPath)
	ask(wire.V10, errNoGRPC.Error())
	now = now.Add(noneFor)
	status = http.StatusServiceUnavailable
	ask(wire.V10, "its card cannot be read: HTTP status 503", "1.0 "+cardPath)
	ask(wire.V10, "its card cannot be read: HTTP status 503", "1.0 "+cardPath)
	card, status = grpcCard("agent:9001"), http.StatusOK
	ask(wire.V10, "http://127.0.0.1:9001", "1.0 "+cardPath)
	ask(wire.V03, "http://127.0.0.1:9001", "0.3 "+cardPath)
}

// A place that is given up is asked for anew; one that is configured stays.
func TestForgetGRPC(t *testing.T) {
	t.Parallel()
	port := "9001"
	c := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("A2A-Version") == "1.0" {
			_, _ = w.Write([]byte(grpcCard("agent:" + port)))
			return
		}
		_, _ = w.Write([]byte(`{}`))
	})
	c.find(t, wire.V10)
	c.find(t, wire.V03)
	old := c.grpc.known(wire.V10)
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	old.reach.dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	if err := old.reach.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.askedFor()
	if !c.forgetGRPC(old) || c.grpc.known(wire.V10) != nil {
		t.Fatal("the place is still known")
	}
	if old.reach.take() != nil {
		t.Error("a connection to the place is kept")
	}
	if got := c.find(t, wire.V03); got != errNoGRPC.Error() || len(c.askedFor()) != 1 {
		t.Errorf("place of 0.3 = %s, want none, and its card to be asked again", got)
	}
	port = "9002"
	if got := c.find(t, wire.V10); got != "http://127.0.0.1:9002" {
		t.Errorf("place of 1.0 = %s, want the new one", got)
	}
	c.askedFor()
	if !c.forgetGRPC(old) { // another call found out, too
		t.Error("a place that was given up before is not to be asked for again, want it to be")
	}
	if got := c.find(t, wire.V10); got != "http://127.0.0.1:9002" || len(c.askedFor()) != 0 {
		t.Errorf("place of 1.0 = %s, want the new one to stay", got)
	}

	set := newUpstream(Agent{URL: &url.URL{Scheme: "http", Host: "host"}, GRPCURL: &url.URL{Scheme: "http", Host: "host:1"}})
	set.learnGRPC(wire.V10, "a:2")
	for _, v := range []wire.Version{wire.V03, wire.V10} {
		was := set.grpc.known(v)
		if set.forgetGRPC(was) || set.grpc.known(v) != was || was.url.Port() != "1" {
			t.Errorf("place of %s = %v, want the configured one", v, set.grpc.known(v))
		}
	}
}

func TestOutboundFrom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ outbound, host, want string }{
		{"127.0.0.1:8400", "127.0.0.1:50051", "http://127.0.0.1:8400"},
		{"https://side.example/", "127.0.0.1:50051", "https://side.example"},
		{"[::1]:8400", "127.0.0.1:50051", "http://[::1]:8400"},
		{"0.0.0.0:8400", "side:50051", "http://side:8400"},
		{"http://[::]:8400", "[::1]:50051", "http://[::1]:8400"},
		{":8400", "side:50051", "http://side:8400"},
		{"0.0.0.0:8400", "side", "http://0.0.0.0:8400"},
	} {
		if got := outboundFrom(tt.outbound, &http.Request{Host: tt.host}); got != tt.want {
			t.Errorf("outboundFrom(%q) for %s = %s, want %s", tt.outbound, tt.host, got, tt.want)
		}
	}
}

// What is wrong with a body says what it is.
func TestPlainBody(t *testing.T) {
	t.Parallel()
	_, err := plainBody(http.Header{"Content-Encoding": {"br"}}, []byte("x"))
	if err == nil || errors.Is(err, errCut) || errors.Is(err, errTooLong) {
		t.Errorf("plainBody(br) = %v, want an error of its own", err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, maxEdited+1)) // into memory
	_ = z.Close()
	if _, err := plainBody(http.Header{"Content-Encoding": {"gzip"}}, bomb.Bytes()); !errors.Is(err, errTooLong) {
		t.Errorf("plainBody(a bomb) = %v, want %v", err, errTooLong)
	}
}
