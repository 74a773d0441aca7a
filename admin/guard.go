package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
)

// guard keeps out what has no business here. On loopback there need be no
// token, and then the browser on the same machine is the way in: a page from
// anywhere may send it here, and by DNS rebinding read the answer as its own.
// Such a request names the page's own host, or its origin.
func (s *server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opts.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")

		if !s.mayBeCalled(r) {
			s.fail(w, r, adminapi.NewProblem(http.StatusMisdirectedRequest, "the admin API does not answer to the host %q here", r.Host))
			return
		}
		if !sameOrigin(r) {
			s.fail(w, r, adminapi.NewProblem(http.StatusForbidden, "the admin API does not answer pages of other sites"))
			return
		}
		if s.opts.Token != "" && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			got, given := bearer(r.Header)
			// Digests have one length, so that comparing takes one time.
			sum := sha256.Sum256([]byte(got))
			if subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
				challenge, detail := `Bearer realm="a2a-sidecar"`, "a bearer token is needed"
				if given {
					challenge, detail = challenge+`, error="invalid_token"`, "this is not the right bearer token"
				}
				h.Set("WWW-Authenticate", challenge)
				s.fail(w, r, adminapi.NewProblem(http.StatusUnauthorized, "%s", detail))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the bearer token of a request.
func bearer(h http.Header) (token string, given bool) {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// mayBeCalled reports whether r names a host that this address answers to; see
// [Options.Addr]. An IP address is no way in by DNS: nobody can rebind one.
func (s *server) mayBeCalled(r *http.Request) bool {
	name := hostname(r.Host)
	if slices.ContainsFunc(s.opts.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
		return true
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().IsLoopback() || !onLoopback(s.opts.Addr)
	}
	return strings.EqualFold(name, "localhost") || !onLoopback(s.opts.Addr) && len(s.opts.Hosts) == 0 && name != ""
}

// onLoopback reports whether only this machine can reach addr. What is not
// known to be reachable from elsewhere counts as such.
func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// hostname returns the name in a Host header, without port, brackets and the
// dot at the end of a full name.
func hostname(host string) string {
	u := url.URL{Host: host}
	return strings.TrimSuffix(u.Hostname(), ".")
}

// sameOrigin reports whether r comes from no page at all or from one of this
// very address.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
