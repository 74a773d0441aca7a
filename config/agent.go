package config

import (
	"strings"
	"time"
)

// How long a session lives if its agent's ttl is not set (design: kinds).
const (
	branchTTL = 30 * time.Minute
	workerTTL = 5 * time.Minute
)

// Agent is one remote agent and the policy for calls to it. Make one with
// [NewAgent], which sets the defaults.
type Agent struct {
	Name            string         `yaml:"name"` // DNS label; /agents/NAME/ on the outbound port; required
	URL             string         `yaml:"url"`  // base URL, http or https; required
	TLS             ClientTLS      `yaml:"tls"`
	GRPC            GRPC           `yaml:"grpc"`
	IsolateSessions bool           `yaml:"isolateSessions"` // a fresh context for every call; default false
	ContextIDs      ContextIDs     `yaml:"contextIds"`      // default sidecar
	Kind            Kind           `yaml:"kind"`            // default branch
	TTL             *time.Duration `yaml:"ttl"`             // nil: see SessionTTL
	Inherit         Inherit        `yaml:"inherit"`         // empty: see Inherits
	Join            Join           `yaml:"join"`            // default explicit
	Busy            Busy           `yaml:"busy"`            // default allow
	OnParentEnd     OnParentEnd    `yaml:"onParentEnd"`     // default cancel
	Reconcile       time.Duration  `yaml:"reconcile"`       // how often to ask how a task stands that no call holds; 0, the default: never
	Refuse          Refuse         `yaml:"refuse"`          // default error
	Push            PushMode       `yaml:"push"`            // default pass
	Limits          AgentLimits    `yaml:"limits"`
	Cards           Cards          `yaml:"cards"`
	Lineage         LineageTold    `yaml:"lineage"`        // default full
	AllowOverrides  bool           `yaml:"allowOverrides"` // callers may override by x-sidecar-* headers; default false
}

// ClientTLS is how the sidecar speaks TLS to an agent, as paths to PEM files.
// The zero value means the system's roots and no client certificate.
type ClientTLS struct {
	CA         string `yaml:"ca"`   // roots to trust in place of the system's
	Cert       string `yaml:"cert"` // client certificate chain; given together with Key
	Key        string `yaml:"key"`
	ServerName string `yaml:"serverName"` // name to expect in place of the URL's host
}

// GRPC is the agent's gRPC interface and the port of its own on which callers
// reach it: gRPC has no room in front of its paths for /agents/NAME/. The zero
// value means any free port.
type GRPC struct {
	Listen string `yaml:"listen"` // loopback host:port; GRPCOff: none; default "", a free port of 127.0.0.1
	URL    string `yaml:"url"`    // where the interface is, http or https; default "", the url's host and the card's port
}

// GRPCOff is the [GRPC.Listen] that switches the port off.
const GRPCOff = "off"

// Addr is the address to bind for the agent's gRPC port, and whether there is
// to be one.
func (g GRPC) Addr() (addr string, ok bool) {
	switch g.Listen {
	case GRPCOff:
		return "", false
	case "":
		return "127.0.0.1:0", true
	default:
		return g.Listen, true
	}
}

// AgentLimits are the caps for calls to one agent. A nil cap is that of
// [Config.Limits]; see [Config.LimitsFor].
type AgentLimits struct {
	MaxConcurrent int            `yaml:"maxConcurrent"` // open runs at the agent, over all trees; default 0, off
	MaxDepth      *int           `yaml:"maxDepth"`
	MaxChildren   *int           `yaml:"maxChildren"`
	MaxFanOut     *int           `yaml:"maxFanOut"`
	MaxSessions   *int           `yaml:"maxSessions"`
	MaxVisits     *int           `yaml:"maxVisits"`
	QueueTimeout  *time.Duration `yaml:"queueTimeout"`
}

// Cards is what happens to the agent's card on its way to the caller.
type Cards struct {
	Rewrite bool     `yaml:"rewrite"` // point its URLs at the sidecar; default true
	Verify  []string `yaml:"verify"`  // paths to public keys, PEM or JWK, one of which must have signed it; default none
}

// NewAgent returns an agent with the defaults of the file.
func NewAgent(name, url string) Agent {
	return Agent{
		Name:        name,
		URL:         url,
		ContextIDs:  ContextIDsSidecar,
		Kind:        KindBranch,
		Join:        JoinExplicit,
		Busy:        BusyAllow,
		OnParentEnd: OnParentEndCancel,
		Refuse:      RefuseError,
		Push:        PushPass,
		Cards:       Cards{Rewrite: true},
		Lineage:     LineageFull,
	}
}

// SessionTTL is how long a session with the agent lives: TTL if it is set, else
// 30 minutes for a branch and 5 for a worker.
func (a Agent) SessionTTL() time.Duration {
	switch {
	case a.TTL != nil:
		return *a.TTL
	case a.Kind == KindWorker:
		return workerTTL
	default:
		return branchTTL
	}
}

// Inherits is what a session with the agent inherits: Inherit if it is set, else
// full for a branch and none for a worker.
func (a Agent) Inherits() Inherit {
	switch {
	case a.Inherit != "":
		return a.Inherit
	case a.Kind == KindWorker:
		return InheritNone
	default:
		return InheritFull
	}
}

// LimitsFor returns the caps for calls to a: its own where it has them, else
// those of c.
func (c *Config) LimitsFor(a Agent) Limits {
	l := c.Limits
	override(&l.MaxDepth, a.Limits.MaxDepth)
	override(&l.MaxChildren, a.Limits.MaxChildren)
	override(&l.MaxFanOut, a.Limits.MaxFanOut)
	override(&l.MaxSessions, a.Limits.MaxSessions)
	override(&l.MaxVisits, a.Limits.MaxVisits)
	override(&l.QueueTimeout, a.Limits.QueueTimeout)
	return l
}

func override[T any](dst, by *T) {
	if by != nil {
		*dst = *by
	}
}

// ParseAgentFlag reads the text of serve's --agent flag:
//
//	NAME=URL[,isolate][,KEY=VALUE]…
//
// where KEY is any single-valued key of an agent in the file, such as
// kind=worker, ttl=5m or limits.maxConcurrent=4. A switch may stand without a
// value, and isolate is short for isolateSessions=true. Keys that are not given
// have their defaults. The error is [Faults]; name and url are only checked by
// [Config.Validate].
func ParseAgentFlag(text string) (Agent, error) {
	const flag = "--agent"
	target, options, _ := strings.Cut(text, ",")
	name, url, ok := strings.Cut(target, "=")
	if !ok {
		return Agent{}, Faults{newFault(flag, "", target, "is not NAME=URL", "for example worker=http://worker:8080")}
	}
	a := NewAgent(name, url)
	var faults Faults
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		key, value, ok := strings.Cut(option, "=")
		if key == "isolate" {
			key = "isolateSessions"
		}
		if r := setScalar(&a, key, value, ok); r != nil {
			faults = append(faults, r.fault(flag, key, value))
		}
	}
	if len(faults) > 0 {
		return Agent{}, faults
	}
	return a, nil
}
