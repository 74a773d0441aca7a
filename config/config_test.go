package config_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

// cmpPrefix compares networks, which have no exported fields.
var cmpPrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	c := config.Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestExampleIsTheDefault(t *testing.T) {
	t.Parallel()
	got, err := config.Load(config.Source{Name: "sidecar.example.yml", YAML: config.Example})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	worker := config.NewAgent("worker", "https://worker.example.com")
	worker.TLS.CA = "/etc/sidecar/worker-ca.pem"
	worker.IsolateSessions = true
	worker.Kind = config.KindWorker
	worker.TTL = new(worker.SessionTTL()) // what it is without the key, too
	worker.Inherit = worker.Inherits()
	l := want.Limits
	worker.Limits = config.AgentLimits{
		MaxDepth:     &l.MaxDepth,
		MaxChildren:  &l.MaxChildren,
		MaxFanOut:    &l.MaxFanOut,
		MaxSessions:  &l.MaxSessions,
		MaxVisits:    &l.MaxVisits,
		QueueTimeout: &l.QueueTimeout,
	}
	want.Agents = []config.Agent{worker, config.NewAgent("researcher", "http://researcher:8080")}
	if diff := cmp.Diff(want, got, cmpPrefix); diff != "" {
		t.Errorf("the example (-want +got):\n%s", diff)
	}
}

func TestValidateChangesNothing(t *testing.T) {
	t.Parallel()
	bad := func() config.Config {
		c := config.Default()
		c.Agents = []config.Agent{{Name: "Bad"}, config.NewAgent("a", "http://a")}
		c.Retain = -1
		return c
	}
	c := bad()
	if err := c.Validate(); err == nil {
		t.Error("Validate of a bad configuration succeeded")
	}
	if diff := cmp.Diff(bad(), c, cmpPrefix); diff != "" {
		t.Errorf("Validate changed (-before +after):\n%s", diff)
	}
}

func TestValidateZeroConfig(t *testing.T) {
	t.Parallel()
	err := new(config.Config).Validate()
	for _, key := range []string{"store: is missing", "listen.admin: is missing", "log.level: is missing", "retain"} {
		if !strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("Validate of the zero Config says nothing of %q:\n%v", key, err)
		}
	}
}

func TestLimitsFor(t *testing.T) {
	t.Parallel()
	c := config.Default()
	a := config.NewAgent("a", "http://a")
	if diff := cmp.Diff(c.Limits, c.LimitsFor(a)); diff != "" {
		t.Errorf("LimitsFor an agent without its own (-want +got):\n%s", diff)
	}
	a.Limits = config.AgentLimits{
		MaxDepth:     new(1),
		MaxChildren:  new(0), // zero is a value, not "not set"
		MaxFanOut:    new(3),
		MaxSessions:  new(4),
		MaxVisits:    new(5),
		QueueTimeout: new(time.Duration(0)),
	}
	want := config.Limits{MaxDepth: 1, MaxFanOut: 3, MaxSessions: 4, MaxVisits: 5, Grace: c.Limits.Grace}
	if diff := cmp.Diff(want, c.LimitsFor(a)); diff != "" {
		t.Errorf("LimitsFor (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.Default().Limits, c.Limits); diff != "" {
		t.Errorf("LimitsFor changed the overall limits:\n%s", diff)
	}
}

func TestKindDefaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		agent   config.Agent
		ttl     time.Duration
		inherit config.Inherit
	}{
		{config.Agent{Kind: config.KindBranch}, 30 * time.Minute, config.InheritFull},
		{config.Agent{Kind: config.KindWorker}, 5 * time.Minute, config.InheritNone},
		{config.Agent{Kind: config.KindWorker, TTL: new(time.Hour), Inherit: config.InheritFull}, time.Hour, config.InheritFull},
	}
	for _, tt := range tests {
		if got := tt.agent.SessionTTL(); got != tt.ttl {
			t.Errorf("%+v: SessionTTL = %v, want %v", tt.agent, got, tt.ttl)
		}
		if got := tt.agent.Inherits(); got != tt.inherit {
			t.Errorf("%+v: Inherits = %v, want %v", tt.agent, got, tt.inherit)
		}
	}
}

func TestGRPCAddr(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"": "127.0.0.1:0", "off": "", "127.0.0.1:8410": "127.0.0.1:8410"} {
		got, on := config.GRPC{Listen: listen}.Addr()
		if got != want || on != (want != "") {
			t.Errorf("GRPC{Listen: %q}.Addr() = %q, %v, want %q, %v", listen, got, on, want, want != "")
		}
	}
}

func TestParseAgentFlag(t *testing.T) {
	t.Parallel()
	got, err := config.ParseAgentFlag("w=http://w:1/base,isolate,kind=worker,ttl=2m,contextIds=agent,limits.maxConcurrent=4,limits.maxDepth=2,cards.rewrite=false,push=relay,grpc.url=http://w:50051")
	if err != nil {
		t.Fatal(err)
	}
	want := config.NewAgent("w", "http://w:1/base")
	want.IsolateSessions = true
	want.Kind = config.KindWorker
	want.TTL = new(2 * time.Minute)
	want.ContextIDs = config.ContextIDsAgent
	want.Limits.MaxConcurrent, want.Limits.MaxDepth = 4, new(2)
	want.Cards.Rewrite = false
	want.Push, want.GRPC.URL = config.PushRelay, "http://w:50051"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseAgentFlag (-want +got):\n%s", diff)
	}
}

func TestParseAgentFlagFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                         "--agent: is not NAME=URL (for example worker=http://worker:8080)",
		"http://u:hunter2@w":       `--agent: "http://xxxxx@w" is not NAME=URL (for example worker=http://worker:8080)`,
		"w=http://w,kind":          "--agent: kind: has no value (write kind=VALUE)",
		"w=http://w,isolated":      "--agent: isolated: is not a key of the configuration",
		"w=http://w,tttl=5m,ttl=5": "--agent: tttl: is not a key of the configuration (did you mean ttl?)\n--agent: ttl: \"5\" is not a duration (write a number and a unit, such as 90s, 5m or 168h)",
		"w=http://w,cards=x":       "--agent: cards: has no single value (set it in the file)",
		"w=http://w,ttl.x=1":       "--agent: ttl.x: is not a key of the configuration",
		"w=http://w,=1":            "--agent: is not a key of the configuration",
		"w=http://w,isolate=maybe": `--agent: isolateSessions: "maybe" is neither true nor false`,
	}
	for in, want := range tests {
		a, err := config.ParseAgentFlag(in)
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("ParseAgentFlag(%q) (-want +got):\n%s", in, diff)
		}
		if a.Name != "" {
			t.Errorf("ParseAgentFlag(%q) returned %+v beside its error", in, a)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	good := map[string]config.Size{
		"0": 0, "1": 1, "100B": 100, "16KiB": 16384, "16 KiB": 16384, "10MiB": 10 << 20, "1GiB": 1 << 30,
		"-1": -1, "9223372036854775807": 1<<63 - 1,
	}
	for in, want := range good {
		got, err := config.ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
		if back, err := config.ParseSize(got.String()); err != nil || back != got {
			t.Errorf("ParseSize(%v.String()) = %d, %v", got, back, err)
		}
	}
	for _, in := range []string{"", "B", "16KB", "16k", "1.5MiB", "9223372036854775807KiB", "8589934592GiB", "1e3", " 1", "0x10"} {
		if got, err := config.ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
	for size, want := range map[config.Size]string{16384: "16KiB", 16385: "16385", 3 << 20: "3MiB", 2 << 30: "2GiB", 0: "0"} {
		if got := size.String(); got != want {
			t.Errorf("Size(%d).String() = %q, want %q", size, got, want)
		}
	}
}

func TestStoreURLHidesItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://:hunter2@host:6379/0",
		"redis://user:hunter2@host",
		"rediss://user:a/hunter2@x@host",
		"redis+sentinel://h1,h2?sentinelPassword=hunter2&x=1",
		"redis+sentinel://u:hunter2@h1,h2/m?sentinelUsername=u&sentinelPassword=hunter2",
		"redis+cluster://u:hunter2@h1,h2?tls=true",
		"redis:hunter2@host",
		"redis:/:hunter2@host",
	} {
		u := config.NewStoreURL(url)
		if u.Reveal() != url {
			t.Errorf("Reveal() = %q, want %q", u.Reveal(), url)
		}
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "store", u, "config", config.Config{Store: u})
		text, err := u.MarshalText()
		if err != nil {
			t.Error(err)
		}
		c := config.Config{Store: u}
		for _, shown := range []string{u.String(), string(text), log.String(), fmt.Sprintf("%v %+v %#v %s %q", u, c, c, u, u)} {
			if strings.Contains(shown, secret) {
				t.Errorf("%q shows its password: %s", url, shown)
			}
		}
	}
	for _, url := range []string{"sqlite:a@b.db", "sqlite::memory:", "redis://host:6379/0"} {
		if got := config.NewStoreURL(url).String(); got != url {
			t.Errorf("NewStoreURL(%q).String() = %q", url, got)
		}
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[config.LogLevel]slog.Level{
		config.LogLevelDebug: slog.LevelDebug,
		config.LogLevelInfo:  slog.LevelInfo,
		config.LogLevelWarn:  slog.LevelWarn,
		config.LogLevelError: slog.LevelError,
	} {
		if got := level.Level(); got != want {
			t.Errorf("%s.Level() = %v, want %v", level, got, want)
		}
	}
}
