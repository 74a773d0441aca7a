package main

import "slices"

// The bindings and versions of the protocol, as clients are told them.
const (
	rpc  = "JSONRPC"
	rest = "HTTP+JSON"
	grpc = "GRPC"

	v03  = "0.3"
	v10  = "1.0"
	both = "both" // an agent that speaks the two
)

// lanes are the bindings by version that a program claims to have.
type lanes map[string][]string

// program is a client, an agent, or both, of one SDK. Adding one to the lab is
// adding one entry to programs. README.md says how they are called.
type program struct {
	name string // in tables and in -only
	sdk  string // what it proves
	// recipes make what the commands need. In the commands, {bin} is where Go
	// programs are built, {venv:NAME} a Python environment, {root} the checkout.
	recipes []recipe

	agent  []string // command; nil: none
	serves lanes
	modes  []string // values of --version, the richest first; nil: those of serves

	client    []string
	speaks    lanes
	scenarios []string // nil: all
	fresh     bool     // it takes --fresh, for errors over fresh connections
	fanOut    bool     // it goes on with a conversation by itself: see experiments.go
	oneHost   bool     // it refuses a card that names another port than the card's own, so an agent's gRPC
}

// recipe makes one thing that programs need. Equal recipes are carried out once.
type recipe struct {
	tool string // go, npm or pip
	dir  string // below the checkout
	what string // package to build; requirements to install; unused by npm
	out  string // name of the binary; of the environment
	mod  string // go: another go.mod than the directory's own
}

// What several programs have.
var (
	every    = lanes{v10: {rpc, rest, grpc}, v03: {rpc, rest, grpc}}
	overHTTP = lanes{v10: {rpc, rest}, v03: {rpc, rest}}
	only03   = lanes{v03: {rpc, rest, grpc}}

	// streams are what frameworks do with an agent of somebody else's. Their
	// fan-outs are in experiments.go.
	streams = []string{"message", "task", "stream"}
)

var programs = []program{
	{
		name: "go2", sdk: "a2a-go v2.3.1",
		recipes: []recipe{
			{tool: "go", dir: ".", what: "./interop/go2/server", out: "go2-server"},
			{tool: "go", dir: ".", what: "./interop/go2/client", out: "go2-client"},
		},
		agent: []string{"{bin}/go2-server"}, serves: every, modes: []string{both, v10, v03},
		client: []string{"{bin}/go2-client"}, speaks: every, fresh: true,
	},
	{
		name: "go03", sdk: "a2a-go v0.3.3",
		recipes: []recipe{
			{tool: "go", dir: "interop/go03", what: "./server", out: "go03-server"},
			{tool: "go", dir: "interop/go03", what: "./client", out: "go03-client"},
		},
		agent: []string{"{bin}/go03-server"}, serves: lanes{v03: {rpc, grpc}},
		client: []string{"{bin}/go03-client"}, speaks: lanes{v03: {rpc, grpc}},
	},
	{
		name: "go0315", sdk: "a2a-go v0.3.15",
		recipes: []recipe{
			{tool: "go", dir: "interop/go03", what: "./server", out: "go0315-server", mod: "v0.3.15.mod"},
			{tool: "go", dir: "interop/go03", what: "./client", out: "go0315-client", mod: "v0.3.15.mod"},
		},
		agent: []string{"{bin}/go0315-server"}, serves: lanes{v03: {rpc, grpc}},
		client: []string{"{bin}/go0315-client"}, speaks: lanes{v03: {rpc, grpc}},
	},
	{
		name: "js", sdk: "@a2a-js/sdk 1.3.0",
		recipes: []recipe{npm},
		agent:   []string{"node", "{root}/interop/js/server.mjs"}, serves: every, modes: []string{both, v10},
		client: []string{"node", "{root}/interop/js/client.mjs"}, speaks: every,
	},
	{
		name: "js03", sdk: "@a2a-js/sdk 0.3.14",
		recipes: []recipe{npm},
		agent:   []string{"node", "{root}/interop/js/server03.mjs"}, serves: only03,
		client: []string{"node", "{root}/interop/js/client03.mjs"}, speaks: only03,
	},
	{
		name: "py", sdk: "a2a-sdk 1.3.0",
		recipes: []recipe{{tool: "pip", dir: "interop/py", what: "requirements.txt", out: "py"}},
		agent:   []string{"{venv:py}/bin/python", "{root}/interop/py/server.py"}, serves: every, modes: []string{both, v10},
		client: []string{"{venv:py}/bin/python", "{root}/interop/py/client.py"}, speaks: every,
	},
	{
		name: "py03", sdk: "a2a-sdk 0.3",
		recipes: []recipe{{tool: "pip", dir: "interop/py", what: "requirements03.txt", out: "py03"}},
		agent:   []string{"{venv:py03}/bin/python", "{root}/interop/py/server03.py"}, serves: only03,
		client: []string{"{venv:py03}/bin/python", "{root}/interop/py/client03.py"}, speaks: only03,
	},
	{
		name: "adk12", sdk: "ADK Go 1.2.0",
		recipes: []recipe{
			{tool: "go", dir: "interop/adk12", what: "./agent", out: "adk12-agent"},
			{tool: "go", dir: "interop/adk12", what: "./coordinator", out: "adk12-coordinator"},
		},
		agent: []string{"{bin}/adk12-agent"}, serves: lanes{v03: {rpc}},
		client: []string{"{bin}/adk12-coordinator"}, speaks: lanes{v03: {rpc}}, scenarios: streams, fanOut: true,
	},
	{
		name: "adk13", sdk: "ADK Go 1.7.0",
		recipes: []recipe{
			{tool: "go", dir: "interop/adk13", what: "./agent", out: "adk13-agent"},
			{tool: "go", dir: "interop/adk13", what: "./coordinator", out: "adk13-coordinator"},
		},
		agent: []string{"{bin}/adk13-agent"}, serves: overHTTP, modes: []string{both},
		client: []string{"{bin}/adk13-coordinator"}, speaks: overHTTP, scenarios: streams, fanOut: true, oneHost: true,
	},
	{
		name: "adkjs", sdk: "@google/adk 2.0.0", recipes: []recipe{npm},
		client: []string{"node", "{root}/interop/js/adk.mjs"}, speaks: only03, scenarios: streams, fanOut: true,
	},
	{
		name: "strands", sdk: "@strands-agents/sdk 1.19.0", recipes: []recipe{npm},
		client: []string{"node", "{root}/interop/js/strands.mjs"}, speaks: only03, scenarios: streams,
	},
	{
		name: "mastra", sdk: "@mastra/core 1.71.0", recipes: []recipe{npm},
		client: []string{"node", "{root}/interop/js/mastra.mjs"}, speaks: lanes{v10: {rpc}, v03: {rpc}}, scenarios: append(streams, "ask"),
	},
	{
		name: "vercel", sdk: "a2a-ai-provider 0.5.0-alpha.1", recipes: []recipe{npm},
		client: []string{"node", "{root}/interop/js/vercel.mjs"}, speaks: lanes{v03: {rpc}}, scenarios: streams,
	},
}

var npm = recipe{tool: "npm", dir: "interop/js"}

// allScenarios are those of the contract.
var allScenarios = []string{
	"message", "task", "stream", "ask", "get", "list", "cancel", "subscribe", "push", "card", "errors", "fanout",
}

// What -short leaves out.
const shortIs = "only pairs with go2 in them or of one SDK, each agent in one mode, the scenarios stream, ask and errors (of frameworks, stream), and a thousand errors within one SDK only"

var shortScenarios = map[string]bool{"stream": true, "ask": true, "errors": true}

// inShort reports whether a pair is in the short run.
func inShort(client, agent *program) bool {
	return client.name == "go2" || agent.name == "go2" || client.name == agent.name
}

// mode is how an agent is started.
type mode struct {
	version string // of the protocol, or both
	noGRPC  bool
}

func (m mode) String() string {
	if m.noGRPC {
		return m.version + " without gRPC"
	}
	return m.version
}

// modesFor are the ways in which an agent is started for a client.
func (p *program) modesFor(client *program, short bool) []mode {
	versions := slices.Clone(p.modes)
	if versions == nil {
		for _, v := range []string{v10, v03} {
			if len(p.serves[v]) > 0 {
				versions = append(versions, v)
			}
		}
	}
	if short || client.name != "go2" && client != p { // each card's shape is to be met, not by everyone
		versions = versions[:1]
	}
	modes := make([]mode, 0, len(versions))
	for _, v := range versions {
		modes = append(modes, mode{v, client.oneHost && p.hasGRPC()})
	}
	return modes
}

func (p *program) hasGRPC() bool {
	return slices.Contains(p.serves[v10], grpc) || slices.Contains(p.serves[v03], grpc)
}

// scenariosOf are what a client is asked to do.
func (p *program) scenariosOf(short bool) []string {
	from := p.scenarios
	if from == nil {
		from = allScenarios
	}
	if !short {
		return from
	}
	var some []string
	for _, s := range from {
		if shortScenarios[s] {
			some = append(some, s)
		}
	}
	return some
}
