// Package compare holds what passed on one side of the sidecar against what
// passed on the other: the differential rule of the interop lab.
//
//	client ◀──▶ near tap ◀──▶ sidecar ◀──▶ far tap ◀──▶ agent
//	               └──────── Differences ────────┘
//
// Status, headers, bodies, stream bytes and trailers are the same on both
// sides, in both directions. What may differ is all in this package: the
// headers of headers.go, the context id of a send where the agent is isolated
// (context.go), and cards, whose URLs must not lead around the sidecar (card.go).
// It knows HTTP and where A2A keeps its ids, and reads nothing of the sidecar's.
package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

// Rules say how an agent is configured at the sidecar.
type Rules struct {
	Prefix   string   // of its paths at the sidecar: /agents/NAME
	Base     string   // of the URLs in its card as the client sees it: http://HOST:PORT/agents/NAME
	Around   []string // addresses, host:port, that would lead a client around the sidecar
	Isolated bool     // a send gets a context id of its own
}

// Difference is one thing that differs.
type Difference struct {
	About string // the call
	What  string
}

func (d Difference) String() string { return d.About + ": " + d.What }

// Differences returns what differs between the two sides; nothing is the empty
// list.
func Differences(near, far []tap.Exchange, rules Rules) []Difference {
	c := comparison{Rules: rules, taken: make([]bool, len(far)), far: far}
	for _, n := range near {
		if isCard(n) {
			c.about(n).card(n)
			continue
		}
		i := c.match(n)
		if i < 0 {
			c.about(n).say("the agent never got it")
			continue
		}
		c.taken[i] = true
		c.about(n).exchange(n, far[i])
	}
	for i, f := range far {
		if !c.taken[i] && !isCard(f) {
			c.about(f).say("the sidecar made this call of its own accord")
		}
	}
	return c.found
}

// Contexts returns the context ids of the messages sent, in order; "" is none.
func Contexts(exchanges []tap.Exchange) []string {
	var ids []string
	for _, e := range exchanges {
		if m, ok := messageOf(e); ok {
			ids = append(ids, m.context)
		}
	}
	return ids
}

// comparison is one under way.
type comparison struct {
	Rules
	far   []tap.Exchange
	taken []bool // which of far are matched
	what  string // call that is compared now
	found []Difference
}

func (c *comparison) about(e tap.Exchange) *comparison {
	if c.what = method(e); c.what == "" {
		c.what = e.Method + " " + c.path(e.Target)
	}
	return c
}

func (c *comparison) say(format string, args ...any) {
	c.found = append(c.found, Difference{c.what, fmt.Sprintf(format, args...)})
}

// path is a target at the sidecar as the agent is to get it.
func (c *comparison) path(target string) string {
	rest, ok := strings.CutPrefix(target, c.Prefix)
	if !ok || rest != "" && rest[0] != '/' && rest[0] != '?' {
		return target // gRPC: the port is the agent's alone
	}
	if below, ok := strings.CutPrefix(rest, "/~/"); ok {
		rest = "/" + below
	}
	if rest == "" || rest[0] == '?' {
		rest = "/" + rest
	}
	return rest
}

// match finds the exchange that became of n: the first not yet matched with the
// same body, else one whose body is the same but for the context, else the first
// to the same place. It is -1 if there is none.
func (c *comparison) match(n tap.Exchange) int {
	best, rank := -1, 0
	for i, f := range c.far {
		if c.taken[i] || f.Method != n.Method || f.Target != c.path(n.Target) || isCard(f) {
			continue
		}
		now := 1
		switch {
		case bytes.Equal(f.Request.Body, n.Request.Body):
			now = 3
		case c.Isolated && sameButContext(n, f):
			now = 2
		}
		if now > rank {
			best, rank = i, now
		}
	}
	return best
}

// exchange compares what the client sent and got with what the agent got and sent.
func (c *comparison) exchange(n, f tap.Exchange) {
	if n.Proto != f.Proto {
		c.say("came as %s, forwarded as %s", n.Proto, f.Proto)
	}
	may := requestHeaders
	if asksCard(n) { // an answer that is to be edited has to come as it is
		may.dropped = append(slices.Clone(may.dropped), may.narrowed...)
	}
	c.headers("request header", n.Request.Header, f.Request.Header, may)
	c.request(n, f)
	c.headers("request trailer", n.Request.Trailer, f.Request.Trailer, nothing)
	if n.Status == 0 || f.Status == 0 { // one of them went away before an answer
		if n.Status != f.Status && !n.Response.Truncated && !f.Response.Truncated {
			c.say("status %d, sent by the agent as %d", n.Status, f.Status)
		}
		return
	}
	if n.Status != f.Status {
		c.say("status %d, sent by the agent as %d", n.Status, f.Status)
	}
	may = responseHeaders
	if asksCard(n) && hasInterfaces(f.Response.Body) {
		may.ignored = append(slices.Clone(may.ignored), ofBytes...)
		c.card(n)
	} else {
		c.bodies("response", f.Response, n.Response)
	}
	c.headers("response header", f.Response.Header, n.Response.Header, may)
	if !n.Response.Truncated && !f.Response.Truncated {
		c.headers("response trailer", f.Response.Trailer, n.Response.Trailer, nothing)
	}
}

// request compares the bodies of a request on its way to the agent.
func (c *comparison) request(n, f tap.Exchange) {
	sent, isSend := messageOf(n)
	got, _ := messageOf(f)
	same := bytes.Equal(n.Request.Body, f.Request.Body)
	switch {
	case !c.Isolated || !isSend || sent.task != "" || same && sent.context != "":
		c.bodies("request", n.Request, f.Request)
	case got.context == "":
		c.say("isolated, and yet the agent got no context id")
	case !sameButContext(n, f):
		c.say("request body differs in more than the context id: %s", firstDifference(n.Request.Body, f.Request.Body))
	}
	if c.Isolated && isSend && sent.task == "" && same && sent.context != "" {
		c.say("isolated, and yet the agent got the context id that was sent")
	}
}

// bodies compares a body as it came with how it left. Where either broke off,
// the shorter one must be how the longer begins.
func (c *comparison) bodies(what string, came, left tap.Half) {
	a, b := came.Body, left.Body
	if came.Truncated || left.Truncated {
		n := min(len(a), len(b))
		a, b = a[:n], b[:n]
	}
	if !bytes.Equal(a, b) {
		c.say("%s body differs: %s", what, firstDifference(a, b))
	}
}

// firstDifference shows where two bodies part.
func firstDifference(a, b []byte) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	const before, after = 24, 40
	cut := func(s []byte) string {
		return strconv.Quote(string(s[max(0, min(at-before, len(s))):min(at+after, len(s))]))
	}
	return fmt.Sprintf("at byte %d of %d and %d, %s became %s", at, len(a), len(b), cut(a), cut(b))
}
