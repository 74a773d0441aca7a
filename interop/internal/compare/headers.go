package compare

import (
	"net/http"
	"slices"
	"strings"
)

// allowance says how the headers that leave the sidecar may differ from those
// that came.
type allowance struct {
	ignored  []string // may be anything on either side
	dropped  []string // begin names that may be missing from what leaves
	added    []string // begin names that may be new in what leaves
	filledIn []string // may be new in what leaves, but not changed
	narrowed []string // lists that may lose what the sidecar could not read
}

// hopByHop belong to one connection (RFC 9110 §7.6.1), and so does how the
// length of a body is told: in chunks or in a header.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade", "Content-Length",
}

// ofBytes tell of the bytes of a body, and are not those of an edited one.
var ofBytes = []string{"Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges"}

var (
	// The lineage is what the sidecar adds, and its own headers end at it. Of
	// the encodings that a client takes it leaves out those that it cannot read.
	requestHeaders = allowance{
		ignored:  append([]string{"Host"}, hopByHop...),
		dropped:  []string{"X-Sidecar-"},
		added:    []string{"X-Sidecar-", "X-Kagent-"},
		narrowed: []string{"Accept-Encoding", "Grpc-Accept-Encoding"},
	}
	// An origin server must send a date (RFC 9110 §6.6.1); if it did not, the
	// first that passes its answer on does.
	responseHeaders = allowance{
		ignored:  hopByHop,
		added:    []string{"X-Sidecar-"},
		filledIn: []string{"Date"},
	}
	nothing allowance
)

func begins(prefixes []string, name string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// headers compares headers as they came with how they left.
func (c *comparison) headers(what string, came, left http.Header, may allowance) {
	names := map[string]bool{}
	for _, h := range []http.Header{came, left} {
		for name := range h {
			names[name] = true
		}
	}
	for _, name := range sorted(names) {
		before, after := came[name], left[name]
		switch {
		case slices.Equal(before, after), slices.Contains(may.ignored, name):
		case len(after) == 0 && begins(may.dropped, name):
		case slices.Contains(may.narrowed, name) && narrowed(before, after):
		case len(before) == 0 && (begins(may.added, name) || slices.Contains(may.filledIn, name)):
		case len(before) == 0:
			c.say("%s %s: %q was added", what, name, after)
		case len(after) == 0:
			c.say("%s %s: %q was dropped", what, name, before)
		default:
			c.say("%s %s: %q became %q", what, name, before, after)
		}
	}
}

// readable are the encodings that the sidecar reads, which it has to let pass.
var readable = []string{"gzip", "x-gzip", "deflate", "identity"}

// narrowed reports whether a list of encodings has lost some that the sidecar
// does not read, and nothing else.
func narrowed(before, after []string) bool {
	codings := func(values []string) (all []string) {
		for coding := range strings.SplitSeq(strings.Join(values, ","), ",") {
			if coding = strings.TrimSpace(coding); coding != "" {
				all = append(all, coding)
			}
		}
		return all
	}
	return slices.Equal(codings(after), slices.DeleteFunc(codings(before), func(coding string) bool {
		name, _, _ := strings.Cut(coding, ";")
		return !slices.Contains(readable, strings.ToLower(strings.TrimSpace(name)))
	}))
}

func sorted(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
