package proxy_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// relaying is a world whose agents' push notifications are relayed.
type relaying struct {
	*world
	callbacks *httptest.Server
}

const pushSecret = "0123456789abcdef"

func newRelaying(t *testing.T, agents ...proxy.Agent) *relaying {
	t.Helper()
	return newRelayingWith(t, func(*sessions.Options, *proxy.Options) {}, agents...)
}

func newRelayingWith(t *testing.T, change func(*sessions.Options, *proxy.Options), agents ...proxy.Agent) *relaying {
	t.Helper()
	r := &relaying{callbacks: httptest.NewUnstartedServer(nil)}
	for i := range agents {
		agents[i].RelayPush = true
	}
	r.world = newWorldWith(t, func(s *sessions.Options, o *proxy.Options) {
		s.Secret = []byte(pushSecret)
		o.PushURL = "http://" + r.callbacks.Listener.Addr().String()
		change(s, o)
	}, agents...)
	r.callbacks.Config.Handler = r.proxy.Callbacks()
	r.callbacks.Start()
	t.Cleanup(r.callbacks.Close)
	r.callbacks.Client().Transport.(*http.Transport).DisableCompression = true
	return r
}

// notify sends what an agent sends. Headers come as name and value, in turn.
func (r *relaying) notify(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := r.callbacks.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(b)}
}

// status notifies url and checks the status of the answer.
func (r *relaying) status(t *testing.T, url, body string, want int) {
	t.Helper()
	if got := r.notify(t, http.MethodPost, url, body); got.status != want {
		t.Errorf("POST %s = %d %s, want %d", body, got.status, got.body, want)
	}
}

func TestPushURL(t *testing.T) {
	t.Parallel()
	one, two := newRelaying(t), newRelaying(t)
	other := newRelayingWith(t, func(s *sessions.Options, _ *proxy.Options) { s.Secret = []byte("0123456789abcdeF") })
	for _, original := range []string{
		"https://hooks.example.com/a?x=1&y=<2>#frag", "HTTP://h", "http://user:pw@h:1/%2F?", "http://h/ü",
		"http://h/callbacks/x", "http://h/" + strings.Repeat("x", 4000),
	} {
		ours := one.proxy.Outgoing("worker", "user\n1", original)
		if !strings.HasPrefix(ours, one.callbacks.URL+"/callbacks/") || len(ours) > 7000 {
			t.Errorf("outgoing(%q) = %q, want a URL of the relay", original, ours)
		}
		if again := one.proxy.Outgoing("worker", "user\n1", original); again == ours {
			t.Errorf("outgoing(%q) is %q twice: it can be guessed", original, ours)
		}
		if same := one.proxy.Outgoing("worker", "user\n1", ours); same != ours {
			t.Errorf("outgoing(%q), a URL of the relay = %q, want the same", ours, same)
		}
		// As another replica sees it, and behind a gateway under another name.
		for _, seen := range []string{ours, "https://else/base" + strings.TrimPrefix(ours, one.callbacks.URL)} {
			if got, ok := two.proxy.Original(seen); !ok || got != original {
				t.Errorf("original(%q) = %q, %v, want %q", seen, got, ok, original)
			}
		}
		if got, ok := other.proxy.Original(ours); ok {
			t.Errorf("original(%q) under another key = %q, want none", ours, got)
		}
		// Whoever hands it in for another agent or user does not get it opened.
		for _, whose := range [][2]string{{"worker", "user2"}, {"other", "user\n1"}} {
			if len(ours) > 4096 {
				break // too long to be relayed
			}
			theirs := one.proxy.Outgoing(whose[0], whose[1], ours)
			if got, _ := one.proxy.Original(theirs); got != ours {
				t.Errorf("original(outgoing(%q)) for %v = %q, want what was handed in", ours, whose, got)
			}
		}
	}
	for _, stays := range []string{
		"", "h", "//h/x", "http:", "http:///x", "ftp://h/x", "mailto:a@h", "://", "http://h/\x7f", "http://h/" + strings.Repeat("x", 5000),
	} {
		if got := one.proxy.Outgoing("worker", "", stays); got != stays {
			t.Errorf("outgoing(%q) = %q, want it as it is", stays, got)
		}
	}
	for _, none := range []string{"", "http://h/callbacks/", "http://h/callbacks/AAAA", "http://h/callbacks/" + strings.Repeat("A", 100)} {
		if got, ok := one.proxy.Original(none); ok {
			t.Errorf("original(%q) = %q, want none", none, got)
		}
	}
}

// A proxy that relays nothing leaves URLs alone.
func TestPushPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.proxy.Outgoing("worker", "", "http://h"); got != "http://h" {
		t.Errorf("outgoing = %q, want http://h", got)
	}
	if got, ok := w.proxy.Original("http://h"); ok {
		t.Errorf("original = %q, want none", got)
	}
	rec := httptest.NewRecorder()
	w.proxy.Callbacks().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/callbacks/x", nil))
	if rec.Code != http.StatusNotFound {
		t.Errorf("POST /callbacks/x = %d, want 404", rec.Code)
	}
}

func TestNotificationIsRelayedAsItCame(t *testing.T) {
	t.Parallel()
	target := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-mine")
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "dropped")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, "moved\x00")
	})
	r := newRelaying(t, agentAt("worker", "http://127.0.0.1:1"))
	url := r.proxy.Outgoing("worker", "", target.URL+"/hook%2Fs/1?token=t&x=%20")
	const body = " {\"task\":\t{\"id\":\"t1\"}} \n"
	got := r.notify(t, http.MethodPost, url, body,
		"Content-Type", "application/a2a+json", "Authorization", "Bearer abc", "X-A2A-Notification-Token", "one",
		"A2A-Notification-Token", "two", "X-Many", "a", "X-Many", "b", "X-Forwarded-For", "10.0.0.9", "Accept-Encoding", "br",
		"Connection", "X-Hop", "X-Hop", "dropped", "X-Sidecar-Root", "dropped", "Upgrade", "h2c", "Traceparent", "garbled")

	sent := target.only(t)
	want := received{
		method: http.MethodPost, uri: "/hook%2Fs/1?token=t&x=%20", host: strings.TrimPrefix(target.URL, "http://"), body: body, length: int64(len(body)),
		header: http.Header{
			"Content-Type": {"application/a2a+json"}, "Authorization": {"Bearer abc"}, "X-A2a-Notification-Token": {"one"},
			"A2a-Notification-Token": {"two"}, "X-Many": {"a", "b"}, "X-Forwarded-For": {"10.0.0.9"}, "Accept-Encoding": {"br"},
			"Traceparent": {"garbled"}, "User-Agent": {"Go-http-client/1.1"}, "Content-Length": {"24"},
		},
	}
	if diff := cmp.Diff(want, sent, cmp.AllowUnexported(received{})); diff != "" {
		t.Errorf("target got (-want +got):\n%s", diff)
	}
	got.header.Del("Date")
	wantAnswer := answer{http.StatusTemporaryRedirect, http.Header{
		"Content-Type": {"application/x-mine"}, "Location": {"/elsewhere"}, "Retry-After": {"7"}, "Content-Length": {"6"},
	}, nil, "moved\x00"}
	if diff := cmp.Diff(wantAnswer, got, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("agent got (-want +got):\n%s", diff)
	}
}

// What the URL's credentials say stands in a header, unless the agent says so itself.
func TestNotificationCredentials(t *testing.T) {
	t.Parallel()
	target := newFake(t, says(""))
	r := newRelaying(t, agentAt("worker", "http://127.0.0.1:1"))
	url := r.proxy.Outgoing("worker", "", strings.Replace(target.URL, "://", "://user:pw@", 1))
	r.status(t, url, "{}", http.StatusOK)
	r.notify(t, http.MethodPost, url, "{}", "Authorization", "Bearer x")
	seen := target.received()
	if a, b := seen[0].header.Get("Authorization"), seen[1].header.Get("Authorization"); a != "Basic dXNlcjpwdw==" || b != "Bearer x" {
		t.Errorf("targets got Authorization %q and %q, want the URL's and the agent's", a, b)
	}
}

func TestNotificationRefused(t *testing.T) {
	t.Parallel()
	target := newFake(t, says(""))
	r := newRelaying(t, agentAt("worker", "http://127.0.0.1:1"))
	url := r.proxy.Outgoing("worker", "", target.URL)
	end := url[len(url)-2:]
	flipped := url[:len(url)-2] + map[bool]string{true: "BA", false: "AA"}[end[0] == 'A']
	for _, tt := range []struct {
		method, url, body string
		want              int
	}{
		{http.MethodPost, flipped, "{}", http.StatusNotFound},
		{http.MethodPost, url + "/", "{}", http.StatusNotFound},
		{http.MethodPost, url[:len(url)-4], "{}", http.StatusNotFound},
		{http.MethodPost, r.callbacks.URL + "/callbacks/", "{}", http.StatusNotFound},
		{http.MethodPost, r.callbacks.URL + "/", "{}", http.StatusNotFound},
		{http.MethodGet, r.callbacks.URL + "/callbacks/x", "", http.StatusNotFound},
		{http.MethodPost, r.proxy.Outgoing("gone", "", target.URL), "{}", http.StatusNotFound},
		{http.MethodGet, url, "", http.StatusMethodNotAllowed},
		{http.MethodPut, url, "{}", http.StatusMethodNotAllowed},
		{http.MethodPost, url, strings.Repeat(" ", maxBody+1), http.StatusRequestEntityTooLarge},
	} {
		got := r.notify(t, tt.method, tt.url, tt.body)
		if got.status != tt.want {
			t.Errorf("%s %s = %d, want %d", tt.method, tt.url, got.status, tt.want)
		}
		if allow := got.header.Get("Allow"); (allow == http.MethodPost) != (tt.want == http.StatusMethodNotAllowed) {
			t.Errorf("%s %s: Allow = %q", tt.method, tt.url, allow)
		}
	}
	if seen := target.received(); len(seen) != 0 {
		t.Errorf("target got %+v, want nothing", seen)
	}
	r.status(t, url, strings.Repeat(" ", maxBody), http.StatusOK)
}

// A caller may name any place; the sidecar does not go to all of them.
func TestNotificationToForbiddenAddress(t *testing.T) {
	t.Parallel()
	target := newFake(t, says(""))
	_, port, err := net.SplitHostPort(target.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := newRelaying(t, agentAt("worker", "http://127.0.0.1:1"))
	for _, host := range []string{"0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "169.254.169.254", "[fe80::1%25lo]", "0.1"} {
		r.status(t, r.proxy.Outgoing("worker", "", "http://"+host+":"+port+"/"), "{}", http.StatusBadGateway)
	}
	if seen := target.received(); len(seen) != 0 {
		t.Errorf("target got %+v, want nothing: the unspecified address is this machine", seen)
	}
	r.status(t, r.proxy.Outgoing("worker", "", "http://127.0.0.1:"+port+"/"), "{}", http.StatusOK)
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"169.254.169.254": true, "169.254.0.1": true, "fe80::1": true, "fe80::1%eth0": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"224.0.0.1": true, "239.1.1.1": true, "ff02::1": true, "255.255.255.255": true, "::ffff:169.254.169.254": true,
		"64:ff9b::a9fe:a9fe": true, "64:ff9b::": true, "fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"fd00:ec2::23": true, "fd20:ce::254": true,
		"::169.254.169.254": true, "::100.100.100.200": true, "::0.0.0.0": true, "::224.0.0.1": true,
		"2002:a9fe:a9fe::": true, "2002:a9fe:a9fe::1": true, "2002:6464:64c8:1:2:3:4:5": true, "2002::1": true,
		"64:ff9b:1::169.254.169.254": true, "64:ff9b:1:abcd::169.254.169.254": true, // of 96 bits
		"64:ff9b:1:a9fe:a9:fe00::": true,                                    // of 48
		"64:ff9b:1:aa:fe:a9fe::":   false, "64:ff9b:1:aaa9:fe:a9fe::": true, // of 56
		"64:ff9b:1:abcd:a9:fea9:fe00:0": true, // of 64
		"64:ff9b:1::100.100.100.200":    true, "64:ff9b:1::168.63.129.16": true,

		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.168.1.1": false, "fd00::1": false, "203.0.113.7": false,
		"2001:db8::1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "169.253.0.1": false, "1.0.0.0": false,
		"::10.0.0.1": false, "::127.0.0.1": false, "2002:a00:1::1": false, "2002:cb00:7107::169.254.169.254": false, "2003:a9fe:a9fe::": false,
		"64:ff9b:1::10.0.0.1": false, "64:ff9b:1::": false, "64:ff9b:1:a00:0:100::": false, "64:ff9b:2::169.254.169.254": false,
		"fd00:ec2::22": false, "fd20:ce::253": false,
	} {
		if got := proxy.Forbidden(netip.MustParseAddr(addr)); got != want {
			t.Errorf("forbidden(%s) = %v, want %v", addr, got, want)
		}
	}
}

func TestNotificationNotDelivered(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	slow := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hung:
		}
	})
	t.Cleanup(func() { close(hung) }) // before the fakes are closed, which wait
	long := newFake(t, says(strings.Repeat("x", maxBody+1)))
	cut := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	})
	switches := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
			<-hung
			_ = c.Close()
		}
	})
	var logs lockedLog
	reader := sdkmetric.NewManualReader()
	r := newRelayingWith(t, func(_ *sessions.Options, o *proxy.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	}, agentAt("worker", "http://127.0.0.1:1"))
	notify := func(target string, want int) {
		t.Helper()
		r.status(t, r.proxy.Outgoing("worker", "", strings.Replace(target, "://", "://hunter2:hunter2@", 1)+"/hunter2?token=hunter2"), "{}", want)
	}
	notify(long.URL, http.StatusBadGateway)
	notify(cut.URL, http.StatusBadGateway)
	notify(switches.URL, http.StatusBadGateway)
	notify(nowhere(t), http.StatusBadGateway)
	notify("http://0.0.0.0:1", http.StatusBadGateway)
	r.proxy.DeliverWithin(10 * time.Millisecond)
	notify(slow.URL, http.StatusGatewayTimeout)
	r.status(t, r.callbacks.URL+"/callbacks/hunter2", "{}", http.StatusNotFound)

	if got := logs.String(); strings.Contains(got, "hunter2") || strings.Contains(got, "/callbacks/") || !strings.Contains(got, "not delivered") {
		t.Errorf("log = %s, want what failed, and nothing of paths, queries and credentials", got)
	}
	want := map[string]int64{"worker unreachable": 4, "worker forbidden": 1, "worker timeout": 1, " unknown": 1}
	if diff := cmp.Diff(want, measured(t, reader, "a2a_sidecar_callbacks", attribute.Key("agent"), attribute.Key("outcome"))); diff != "" {
		t.Errorf("a2a_sidecar_callbacks (-want +got):\n%s", diff)
	}
}

// The relay does not answer for a target: what that says, the agent hears.
func TestNotificationAnswers(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 204, 304, 400, 401, 410, 429, 500, 503} {
		target := newFake(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		r := newRelaying(t, agentAt("worker", "http://127.0.0.1:1"))
		r.status(t, r.proxy.Outgoing("worker", "", target.URL), "{}", status)
	}
}

// lockedLog is where a logger may write from many goroutines.
type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// FuzzPushURL: whatever is replaced is restored, and nothing that anybody else
// makes up is taken for the relay's.
func FuzzPushURL(f *testing.F) {
	for _, seed := range []string{"http://h/a?b#c", "https://[::1]:8/%2F", "http://h/callbacks/AAAA", "callbacks/", "http://h/\xff"} {
		f.Add(seed, "user")
	}
	record, err := sessions.New(f.Context(), sessions.Options{
		Store: storetest.NewModel(time.Now), Secret: []byte(pushSecret), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	p, err := proxy.New(proxy.Options{
		Record: record, PushURL: "http://sidecar:8403/", Logger: slog.New(slog.DiscardHandler),
		Tracer: tracenoop.NewTracerProvider(), Meter: noop.NewMeterProvider(), Propagator: propagation.TraceContext{},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		p.Close()
		if err := record.Close(context.Background()); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, raw, principal string) {
		if got, ok := p.Original(raw); ok {
			t.Errorf("original(%q) = %q, want none", raw, got)
		}
		ours := p.Outgoing("worker", principal, raw)
		if ours == raw || !utf8.ValidString(raw) || !utf8.ValidString(principal) { // wire passes nothing else
			return
		}
		if got, ok := p.Original(ours); !ok || got != raw {
			t.Errorf("original(outgoing(%q)) = %q, %v", raw, got, ok)
		}
		if same := p.Outgoing("worker", principal, ours); same != ours && len(ours) <= 4096 {
			t.Errorf("outgoing(outgoing(%q)) = %q, want the same", raw, same)
		}
	})
}

// An agent that sends half a notification and waits does not keep a connection for ever.
func TestNotificationThatComesToNoEnd(t *testing.T) {
	t.Parallel()
	target := newFake(t, says(""))
	r := newRelaying(t, agentAt("worker", "http://127.0.0.1:1"))
	r.proxy.DeliverWithin(20 * time.Millisecond)
	url := r.proxy.Outgoing("worker", "", target.URL)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.callbacks.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	path := strings.TrimPrefix(url, r.callbacks.URL)
	if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("half a notification got %q, %v, want 400 and the connection's end", got, err)
	}
	if seen := target.received(); len(seen) != 0 {
		t.Errorf("target got %+v, want nothing", seen)
	}
}
