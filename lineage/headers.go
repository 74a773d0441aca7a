package lineage

import "strconv"

// DefaultHeaderPrefix spells the lineage headers as kagent's agents read them.
const DefaultHeaderPrefix = "x-kagent-"

// Names of the sidecar's own headers, and of the one that names the user. Calls
// to agents carry session, branch, depth and turn; answers to callers carry
// session, context, root and branch.
const (
	HeaderSession   = "X-Sidecar-Session-Id"
	HeaderContext   = "X-Sidecar-Context-Id"
	HeaderRoot      = "X-Sidecar-Root-Context-Id"
	HeaderBranch    = "X-Sidecar-Branch"
	HeaderDepth     = "X-Sidecar-Depth"
	HeaderTurn      = "X-Sidecar-Turn"
	HeaderPrincipal = "X-User-Id"
)

// Headers spells the two context headers with a configured prefix.
type Headers struct {
	Root   string // the top of the chain, unchanged over every hop and turn
	Parent string // the immediate caller's own context
}

// HeadersFor returns the names under prefix, which ends in a dash.
func HeadersFor(prefix string) Headers {
	if prefix == "" {
		prefix = DefaultHeaderPrefix
	}
	return Headers{Root: prefix + "root-context-id", Parent: prefix + "parent-context-id"}
}

// Told says how much of the lineage an agent is told.
type Told string

// What an agent is told.
const (
	ToldFull Told = "full" // the context headers and the sidecar's own
	ToldRoot Told = "root" // the two context headers only
	ToldNone Told = "none"
)

// Values is the lineage of one call, as its headers carry it.
type Values struct {
	Root    string // root context id
	Parent  string // the caller's own context id
	Session string // id of the session the call runs in
	Branch  string // its label
	Depth   int    // its depth
	Turn    string // empty where no turn is known
}

// Each calls set with the name and value of every header that an agent which
// is told as much as told should get. Empty values are left out.
func (v Values) Each(h Headers, told Told, set func(name, value string)) {
	put := func(name, value string) {
		if value != "" {
			set(name, value)
		}
	}
	if told == ToldNone {
		return
	}
	put(h.Root, v.Root)
	put(h.Parent, v.Parent)
	if told == ToldRoot {
		return
	}
	put(HeaderSession, v.Session)
	put(HeaderBranch, v.Branch)
	if v.Depth > 0 { // only the root stands at 0, and nobody calls that
		put(HeaderDepth, strconv.Itoa(v.Depth))
	}
	put(HeaderTurn, v.Turn)
}
