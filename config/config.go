// Package config is the sidecar's settings: what they are called, what they
// default to, where they come from, and which values make sense.
//
//	Default() ◀── file (YAML, ${ENV} expanded) ◀── SIDECAR_* variables ◀── flags
//	                                 │
//	                              Validate        every fault at once, each with
//	                                 ▼            its place, key, value and hint
//	                               Config
//
// It holds values and nothing else. It opens no file, reads no environment of
// its own, and knows neither HTTP nor any store: secrets stay paths, addresses
// stay text. The command maps a Config onto the options of the other packages,
// none of which imports this one.
//
// The commented file sidecar.example.yml, embedded as [Example], is the
// reference for users. The descriptions in [Schema] are its comments, and tests
// hold its values equal to [Default].
package config

import (
	_ "embed"
	"net/netip"
	"time"
)

// Example is a commented configuration file that shows every key at its
// default, and two agents.
//
//go:embed sidecar.example.yml
var Example []byte

// Config is the whole configuration. Make one with [Default] or [Load]: the
// zero Config is not valid.
type Config struct {
	Local       Local         `yaml:"local"`
	Listen      Listen        `yaml:"listen"`
	Push        Push          `yaml:"push"`
	Agents      []Agent       `yaml:"agents"` // default none: every call gets a 404
	Limits      Limits        `yaml:"limits"`
	Store       StoreURL      `yaml:"store"`  // default sqlite:sidecar.db, in the working directory
	Retain      time.Duration `yaml:"retain"` // a tree is dropped this long after its last event; default 168h
	Branches    Branches      `yaml:"branches"`
	OnStoreDown OnStoreDown   `yaml:"onStoreDown"` // default local
	Record      Record        `yaml:"record"`
	Lineage     Lineage       `yaml:"lineage"`
	LimitsHTTP  LimitsHTTP    `yaml:"limitsHTTP"`
	Admin       Admin         `yaml:"admin"`
	Telemetry   Telemetry     `yaml:"telemetry"`
	Log         Log           `yaml:"log"`
}

// Local is the agent that the sidecar stands beside.
type Local struct {
	Name string `yaml:"name"` // how trees and messages call it; default coordinator
	URL  string `yaml:"url"`  // where inbound calls go; default http://127.0.0.1:8080; needed only with Listen.Inbound
}

// Listen holds the addresses to bind, as host:port. Port 0 lets the system
// choose; an empty host means all interfaces.
type Listen struct {
	Outbound string    `yaml:"outbound"` // calls from the local agent; default 127.0.0.1:8400
	Inbound  string    `yaml:"inbound"`  // calls to the local agent; default "", off
	Admin    string    `yaml:"admin"`    // API, health and metrics; default 127.0.0.1:8402
	TLS      ListenTLS `yaml:"tls"`
}

// ListenTLS says which of the listeners speak TLS. The default is none.
type ListenTLS struct {
	Outbound ServerTLS `yaml:"outbound"`
	Inbound  ServerTLS `yaml:"inbound"`
	Admin    ServerTLS `yaml:"admin"`
}

// ServerTLS is one listener's TLS, as paths to PEM files. The zero value is
// plain text.
type ServerTLS struct {
	Cert string `yaml:"cert"` // certificate chain; given together with Key
	Key  string `yaml:"key"`
	CA   string `yaml:"ca"` // when set, clients must show a certificate that it signed
}

// Push is where agents send push notifications that the sidecar relays; see
// [Agent.Push].
type Push struct {
	Listen string `yaml:"listen"` // address to bind, as in Listen; default "", off
	URL    string `yaml:"url"`    // base URL under which agents reach it; default "", http:// and the bound address
}

// Limits are the caps on one tree, and the time that what exceeds its own is
// given. Zero switches a cap off, except MaxDepth, which is always on. Grace is
// the same for every agent: a tree ends as one.
type Limits struct {
	MaxDepth     int           `yaml:"maxDepth"`     // depth of a new session, 1 to 4; default 4
	MaxChildren  int           `yaml:"maxChildren"`  // live child sessions of one parent; default 8
	MaxFanOut    int           `yaml:"maxFanOut"`    // open runs out of one parent; default 0
	MaxSessions  int           `yaml:"maxSessions"`  // sessions made in one tree during one turn, or an hour; default 1000
	MaxVisits    int           `yaml:"maxVisits"`    // times one agent stands on the path from the root; default 2
	QueueTimeout time.Duration `yaml:"queueTimeout"` // how long a run waits for a place; 0 never waits; default 5m
	Grace        time.Duration `yaml:"grace"`        // how long a session that is to end may work on; 0 ends it at once; default 30s
}

// Branches says what a branch may read beyond its own path.
type Branches struct {
	AcrossTurns AcrossTurns `yaml:"acrossTurns"` // default filtered
}

// Record says how much of the messages is kept.
type Record struct {
	Content  RecordContent `yaml:"content"`  // default text
	MaxBytes Size          `yaml:"maxBytes"` // kept of one event's content; default 16KiB
	Redact   []string      `yaml:"redact"`   // RE2 patterns; what they match is never stored
}

// Lineage is how callers and callees tell each other where a call belongs.
type Lineage struct {
	HeaderPrefix string         `yaml:"headerPrefix"` // of the two context headers; default x-kagent-
	Trust        []netip.Prefix `yaml:"trust"`        // peers whose lineage headers are believed; default loopback
	Key          Secret         `yaml:"key"`          // from which stable context ids are derived, at least 16 bytes; default one that the store keeps
}

// LimitsHTTP bounds what is read from a peer.
type LimitsHTTP struct {
	MaxBody       Size          `yaml:"maxBody"`       // of one message, not of a stream; default 10MiB
	MaxHeader     Size          `yaml:"maxHeader"`     // of one request's header; default 64KiB
	HeaderTimeout time.Duration `yaml:"headerTimeout"` // for a request's header to arrive; default 10s
}

// Admin guards the admin address.
type Admin struct {
	Token Secret `yaml:"token"` // bearer token; required when Listen.Admin is not loopback
}

// Telemetry has no keys of its own: the OTEL_* variables are honoured.
type Telemetry struct{}

// Log is the sidecar's own log, on standard error.
type Log struct {
	Level  LogLevel  `yaml:"level"`  // default info
	Format LogFormat `yaml:"format"` // default json
}

// Default returns the configuration that an empty file gives.
func Default() Config {
	return Config{
		Local:  Local{Name: "coordinator", URL: "http://127.0.0.1:8080"},
		Listen: Listen{Outbound: "127.0.0.1:8400", Admin: "127.0.0.1:8402"},
		Limits: Limits{
			MaxDepth:     4,
			MaxChildren:  8,
			MaxSessions:  1000,
			MaxVisits:    2,
			QueueTimeout: 5 * time.Minute,
			Grace:        30 * time.Second,
		},
		Store:       NewStoreURL("sqlite:sidecar.db"),
		Retain:      7 * 24 * time.Hour,
		Branches:    Branches{AcrossTurns: AcrossTurnsFiltered},
		OnStoreDown: OnStoreDownLocal,
		Record:      Record{Content: RecordContentText, MaxBytes: 16 * KiB},
		Lineage: Lineage{
			HeaderPrefix: "x-kagent-",
			Trust: []netip.Prefix{
				netip.MustParsePrefix("127.0.0.0/8"),
				netip.MustParsePrefix("::1/128"),
			},
		},
		LimitsHTTP: LimitsHTTP{MaxBody: 10 * MiB, MaxHeader: 64 * KiB, HeaderTimeout: 10 * time.Second},
		Log:        Log{Level: LogLevelInfo, Format: LogFormatJSON},
	}
}
