package proxy

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// ownPrefix begins the names of the sidecar's own headers, in canonical form.
// What a caller sends under it is meant for the sidecar and goes no further.
const ownPrefix = "X-Sidecar-"

// said is what the headers of a call say about where it comes from.
type said struct {
	root, parent string
	principal    string
	turn         string
	depth        int
}

// one returns the value of a header that may occur once. Two values would let
// the sidecar read one and the agent the other.
func one(h http.Header, name string) (string, error) {
	values := h[http.CanonicalHeaderKey(name)]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", fmt.Errorf("header %s occurs %d times", strings.ToLower(name), len(values))
	}
	value := textproto.TrimString(values[0])
	if value == "" {
		return "", nil
	}
	return value, wire.CheckID("header "+strings.ToLower(name), value)
}

// single are headers besides those of the lineage that may occur once: what a
// message is taken for, and whose trace it belongs to, has one answer.
var single = [...]string{"A2a-Version", "Content-Type", "Traceparent"}

// readHeaders reads the lineage of a call. The error names the header at fault.
func (p *Proxy) readHeaders(h http.Header) (said, error) {
	for _, name := range single {
		if n := len(h[name]); n > 1 {
			return said{}, fmt.Errorf("header %s occurs %d times", strings.ToLower(name), n)
		}
	}
	var s said
	var depth string
	for _, want := range [...]struct {
		name string
		into *string
	}{
		{p.names.Root, &s.root},
		{p.names.Parent, &s.parent},
		{lineage.HeaderPrincipal, &s.principal},
		{lineage.HeaderTurn, &s.turn},
		{lineage.HeaderDepth, &depth},
	} {
		value, err := one(h, want.name)
		if err != nil {
			return said{}, err
		}
		*want.into = value
	}
	if depth != "" {
		n, err := strconv.Atoi(depth)
		if err != nil || n < 0 || n > 1000 {
			return said{}, fmt.Errorf("header %s is not a depth", strings.ToLower(lineage.HeaderDepth))
		}
		s.depth = n
	}
	if n := len(h["Authorization"]); n > 1 {
		return said{}, fmt.Errorf("header authorization occurs %d times", n)
	}
	s.principal = contextid.Principal(s.principal, h.Get("Authorization"))
	return s, nil
}

// dropOwn removes the sidecar's own headers from what somebody else sent.
func dropOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, ownPrefix) {
			delete(h, name)
		}
	}
}

// dropLineage removes the lineage that the caller told from what goes to an agent
// that is to be told nothing, whatever the request is.
func (p *Proxy) dropLineage(h http.Header, told lineage.Told) {
	if told == lineage.ToldNone {
		h.Del(p.names.Root)
		h.Del(p.names.Parent)
	}
}

// stamp puts the lineage of a send on its way to the agent. What the caller set
// itself stays; of each header exactly one value leaves.
func (p *Proxy) stamp(h http.Header, run *sessions.Run, told lineage.Told) {
	run.Lineage().Each(p.names, told, func(name, value string) {
		if h.Get(name) == "" {
			h.Set(name, value)
		}
	})
}

// stampResponse tells the caller where its call ran. Nobody but the sidecar
// says so: an agent that stands behind another one tells of that one's tree.
func stampResponse(h http.Header, v lineage.Values, contextID string) {
	dropOwn(h)
	for name, value := range map[string]string{
		lineage.HeaderSession: v.Session,
		lineage.HeaderContext: contextID,
		lineage.HeaderRoot:    v.Root,
		lineage.HeaderBranch:  v.Branch,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
}
