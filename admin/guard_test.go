package admin_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/admin"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// ask asks a handler for path as described by set, and returns the answer.
func ask(h http.Handler, path string, set func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost:8402"
	set(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestToken(t *testing.T) {
	t.Parallel()
	h := admin.New(admin.Options{Reader: broken{sessions.ErrNotFound}, Token: "sesame", Metrics: http.NotFoundHandler()})
	for _, path := range []string{"/", "/api/v1/trees/r", "/api/v1/sessions/x", "/metrics", "/nowhere"} {
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer sesam", "Bearer sesame2", "Basic sesame", "sesame"} {
			resp := ask(h, path, func(r *http.Request) {
				if auth != "" {
					r.Header.Set("Authorization", auth)
				}
			})
			problem(t, resp, http.StatusUnauthorized)
			if resp.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s with Authorization %q: no WWW-Authenticate", path, auth)
			}
		}
		for _, auth := range []string{"Bearer sesame", "bearer  sesame"} {
			resp := ask(h, path, func(r *http.Request) { r.Header.Set("Authorization", auth) })
			if resp.Code == http.StatusUnauthorized {
				t.Errorf("%s with Authorization %q = 401, want it let in", path, auth)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if resp := ask(h, path, func(*http.Request) {}); resp.Code != http.StatusOK {
			t.Errorf("%s without a token = %d, want 200", path, resp.Code)
		}
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	addr := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 8402} }
	tests := []struct {
		name  string
		bound net.Addr
		hosts []string
		host  string
		want  bool
	}{
		{"loopback, localhost", addr("127.0.0.1"), nil, "localhost:8402", true},
		{"loopback, LOCALHOST.", addr("127.0.0.1"), nil, "LOCALHOST.", true},
		{"loopback, its address", addr("127.0.0.1"), nil, "127.0.0.1:8402", true},
		{"loopback, another loopback address", addr("127.0.0.1"), nil, "127.8.9.1", true},
		{"loopback, IPv6", addr("::1"), nil, "[::1]:8402", true},
		{"loopback, IPv4 in IPv6", addr("::1"), nil, "[::ffff:127.0.0.1]:8402", true},
		{"loopback, rebound name", addr("127.0.0.1"), nil, "attacker.example:8402", false},
		{"loopback, name that begins well", addr("127.0.0.1"), nil, "localhost.attacker.example", false},
		{"loopback, name that looks like an address", addr("127.0.0.1"), nil, "127.0.0.1.attacker.example", false},
		{"loopback, another address", addr("127.0.0.1"), nil, "10.0.0.1:8402", false},
		{"loopback, none", addr("127.0.0.1"), nil, "", false},
		{"loopback, a name of ours", addr("127.0.0.1"), []string{"sidecar.example"}, "Sidecar.Example:443", true},
		{"not known, rebound name", nil, nil, "attacker.example", false},
		{"a pod's address", addr("10.0.0.7"), nil, "10.0.0.7:8402", true},
		{"all addresses, any name", addr("0.0.0.0"), nil, "sidecar.ns.svc:8402", true},
		{"all addresses, none", addr("::"), nil, "", false},
		{"all addresses, another name than ours", addr("0.0.0.0"), []string{"sidecar.example"}, "attacker.example", false},
		{"all addresses, a probe beside our names", addr("0.0.0.0"), []string{"sidecar.example"}, "10.0.0.7:8402", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := admin.New(admin.Options{Reader: broken{sessions.ErrNotFound}, Addr: tt.bound, Hosts: tt.hosts})
			resp := ask(h, "/", func(r *http.Request) { r.Host = tt.host })
			if got := resp.Code == http.StatusOK; got != tt.want {
				t.Errorf("Host %q = %d, want it let in: %t", tt.host, resp.Code, tt.want)
			}
			if !tt.want {
				problem(t, resp, http.StatusMisdirectedRequest)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	h := admin.New(admin.Options{Reader: broken{sessions.ErrNotFound}})
	for origin, want := range map[string]bool{
		"http://localhost:8402":      true,
		"https://LOCALHOST:8402":     true,
		"http://localhost:3000":      false,
		"http://localhost":           false,
		"https://attacker.example":   false,
		"null":                       false,
		"":                           false,
		"http://localhost:8402.evil": false,
		"http://[":                   false,
	} {
		resp := ask(h, "/", func(r *http.Request) { r.Header["Origin"] = []string{origin} })
		if got := resp.Code == http.StatusOK; got != want {
			t.Errorf("Origin %q = %d, want it let in: %t", origin, resp.Code, want)
		}
		if !want {
			problem(t, resp, http.StatusForbidden)
		}
	}
	resp := ask(h, "/", func(r *http.Request) {
		r.Header["Origin"] = []string{"http://localhost:8402", "https://attacker.example"}
	})
	problem(t, resp, http.StatusForbidden)
}

// Every answer, refusals included, tells a browser to make nothing of it.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	h := admin.New(admin.Options{Reader: broken{sessions.ErrNotFound}})
	for _, host := range []string{"localhost", "attacker.example"} {
		resp := ask(h, "/healthz", func(r *http.Request) { r.Host = host })
		for name, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"Cache-Control":                "no-store",
			"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy":              "no-referrer",
		} {
			if got := resp.Header().Get(name); got != want {
				t.Errorf("%s for %s = %q, want %q", name, host, got, want)
			}
		}
		if got := resp.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("Access-Control-Allow-Origin = %q, want none", got)
		}
	}
}
