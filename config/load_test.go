package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// secret is the password in the test files; no fault may show it.
const secret = "hunter2"

// env is the environment of the test files.
func env(name string) (string, bool) {
	value, ok := map[string]string{
		"NAME":     "planner",
		"COUNT":    "12",
		"HOST":     "redis.example.com",
		"PASSWORD": secret,
		"EMPTY":    "",
	}[name]
	return value, ok
}

func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func testFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s (%v)", pattern, err)
	}
	return files
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func faultsOf(t *testing.T, err error) config.Faults {
	t.Helper()
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		t.Fatalf("error is %T, want Faults: %v", err, err)
	}
	return faults
}

func TestLoadBad(t *testing.T) {
	t.Parallel()
	for _, file := range testFiles(t, "bad/*.yml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			got, err := config.Load(config.Source{Name: "sidecar.yml", YAML: read(t, file), LookupEnv: env})
			if err == nil {
				t.Fatal("Load succeeded")
			}
			if diff := cmp.Diff(config.Config{}, got); diff != "" {
				t.Errorf("Load returned a configuration beside its error: %s", diff)
			}
			for _, f := range faultsOf(t, err) {
				if strings.Contains(f.Error()+f.Value, secret) {
					t.Errorf("fault shows the secret: %v", f)
				}
				if f.File != "sidecar.yml" || f.Line == 0 || f.Column == 0 {
					t.Errorf("fault has no place: %+v", f)
				}
			}
			golden := strings.TrimSuffix(file, ".yml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, golden)), err.Error()+"\n"); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadGood(t *testing.T) {
	t.Parallel()
	agent := func(name, url string, edit ...func(*config.Agent)) config.Agent {
		a := config.NewAgent(name, url)
		for _, e := range edit {
			e(&a)
		}
		return a
	}
	caps := func(a *config.Agent) {
		a.Limits.MaxChildren, a.Limits.QueueTimeout = new(2), new(time.Duration(0))
	}
	want := map[string]func(*config.Config){ // what differs from the default
		"empty":   func(*config.Config) {},
		"comment": func(*config.Config) {},
		"null":    func(*config.Config) {},
		"json": func(c *config.Config) {
			c.Log.Level = config.LogLevelDebug
			c.Agents = []config.Agent{agent("a", "http://a:80")}
		},
		"anchors": func(c *config.Config) {
			c.Agents = []config.Agent{agent("a", "http://a", caps), agent("b", "http://b", caps)}
		},
		"expansion": func(c *config.Config) {
			c.Local.Name = "planner"
			c.Limits.MaxChildren = 12
			c.Store = config.NewStoreURL("redis://:hunter2@redis.example.com:6379/0")
			c.Record.Redact = []string{`\d{3}$`, "${NAME}", "planner-[0-9]+"}
		},
		"stores": func(c *config.Config) {
			c.Store = config.NewStoreURL("rediss://user:p%40ss@redis.example.com:6380/2")
		},
		"cluster": func(c *config.Config) {
			c.Store = config.NewStoreURL("redis+cluster://user:p%40ss@10.0.0.1:6379,[::1]:6380,node3?tls=true")
			c.Limits.Grace = 0
			c.Agents = []config.Agent{agent("a", "http://a", func(a *config.Agent) {
				a.OnParentEnd, a.Reconcile = config.OnParentEndAbandon, 10*time.Second
			})}
		},
		"sentinel": func(c *config.Config) {
			c.Store = config.NewStoreURL("redis+sentinel://:p%2Fss@s1,s2:26380/mymaster/2?sentinelUsername=u&sentinelPassword=p")
		},
		"memory": func(c *config.Config) { c.Store = config.NewStoreURL("sqlite::memory:") },
		"exposed": func(c *config.Config) {
			c.Listen.Outbound, c.Listen.Admin = ":0", "[::]:0"
			c.Admin.Token.File = "/run/token"
		},
		"push": func(c *config.Config) {
			c.Push = config.Push{Listen: "0.0.0.0:8403", URL: "https://sidecar.ns.svc:8403/up"}
			c.Agents = []config.Agent{
				agent("a", "http://a", func(a *config.Agent) { a.Push = config.PushRelay }), agent("b", "http://b"),
			}
		},
		"grpc": func(c *config.Config) {
			at := func(listen, url string) func(*config.Agent) {
				return func(a *config.Agent) { a.GRPC = config.GRPC{Listen: listen, URL: url} }
			}
			root := func(a *config.Agent) { a.TLS.CA = "ca.pem" }
			c.Agents = []config.Agent{
				agent("a", "http://a", root, at("127.0.0.1:8410", "https://a:50051/")), agent("b", "http://b", at("127.0.0.1:0", "")),
				agent("c", "http://c", at("127.0.0.1:0", "")), agent("d", "http://d", at("off", "")),
			}
		},
		"sizes": func(c *config.Config) {
			c.Record.MaxBytes = 2 * config.KiB
			c.LimitsHTTP.MaxBody, c.LimitsHTTP.MaxHeader = config.GiB, 100
		},
	}
	for _, file := range testFiles(t, "good/*.yml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edit, ok := want[name]
			if !ok {
				t.Fatal("no expectation for this file")
			}
			want := config.Default()
			edit(&want)
			got, err := config.Load(config.Source{Name: file, YAML: read(t, file), LookupEnv: env})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpPrefix); diff != "" {
				t.Errorf("Load (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadEnvironment(t *testing.T) {
	t.Parallel()
	got, err := config.Load(config.Source{
		YAML: []byte("log: {level: warn}\nlimits: {maxChildren: 3, maxVisits: 7}\n"),
		LookupEnv: lookup(map[string]string{
			"SIDECAR_STORE":                "sqlite:${NAME}.db", // not expanded: it is the environment already
			"SIDECAR_LISTEN_OUTBOUND":      "127.0.0.1:1",
			"SIDECAR_LIMITS_MAX_CHILDREN":  "5",
			"SIDECAR_LIMITS_HTTP_MAX_BODY": "1MiB",
			"SIDECAR_ON_STORE_DOWN":        "refuse",
			"SIDECAR_ADMIN_TOKEN_FILE":     "/run/token",
			"SIDECAR_LOG_LEVEL":            "",
			"SIDECAR_ADMIN":                "http://127.0.0.1:8402",
			"SIDECAR_CONFIG":               "sidecar.yml",
			"SIDECAR_PORT":                 "tcp://10.0.0.1:8400",
			"SIDECAR_SERVICE_HOST":         "10.0.0.1",
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Store = config.NewStoreURL("sqlite:${NAME}.db")
	want.Listen.Outbound = "127.0.0.1:1"
	want.Limits.MaxChildren, want.Limits.MaxVisits = 5, 7
	want.LimitsHTTP.MaxBody = config.MiB
	want.OnStoreDown = config.OnStoreDownRefuse
	want.Admin.Token.File = "/run/token"
	want.Log.Level = config.LogLevelWarn
	if diff := cmp.Diff(want, got, cmpPrefix); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

// Kubernetes sets <SERVICE>_PORT… and <SERVICE>_SERVICE_… in every pod, so no
// key may take such a name.
func TestLoadAsksForNoServiceVariable(t *testing.T) {
	t.Parallel()
	asked := 0
	_, err := config.Load(config.Source{LookupEnv: func(name string) (string, bool) {
		asked++
		for _, taken := range []string{"SIDECAR_PORT", "SIDECAR_SERVICE_"} {
			if strings.HasPrefix(name, taken) {
				t.Errorf("Load asked for %s, which a Service named sidecar sets", name)
			}
		}
		if name == "SIDECAR_ADMIN" || name == "SIDECAR_CONFIG" {
			t.Errorf("Load asked for %s, which is the command's own", name)
		}
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	if asked < 20 {
		t.Errorf("Load asked for %d variables, want one for each scalar key", asked)
	}
}

func TestLoadFlags(t *testing.T) {
	t.Parallel()
	got, err := config.Load(config.Source{
		YAML: []byte(`
listen: {admin: "0.0.0.0:1"}   # a fault, if no flag came over it
agents:
  - {name: a, url: http://file, kind: worker}
  - {name: b, url: http://file}
`),
		LookupEnv: lookup(map[string]string{"SIDECAR_STORE": "redis://env"}),
		Flags: []config.Flag{
			{Name: "--store", Key: "store", Value: "sqlite::memory:"},
			{Name: "--admin", Key: "listen.admin", Value: "127.0.0.1:0"},
			{Name: "--agent", Key: "agents", Value: "a=http://flag,isolate"},
			{Name: "--agent", Key: "agents", Value: "c=http://flag"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Store = config.NewStoreURL("sqlite::memory:")
	want.Listen.Admin = "127.0.0.1:0"
	a := config.NewAgent("a", "http://flag")
	a.IsolateSessions = true
	want.Agents = []config.Agent{a, config.NewAgent("b", "http://file"), config.NewAgent("c", "http://flag")}
	if diff := cmp.Diff(want, got, cmpPrefix); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestLoadFaultsNameTheirSource(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Source{
		Name: "sidecar.yml",
		YAML: []byte("retain: 0s\nagents:\n  - {name: a, url: nope}\n  - {name: b, url: nope}\n"),
		LookupEnv: lookup(map[string]string{
			"SIDECAR_LOG_LEVEL":        "loud",
			"SIDECAR_LIMITS_MAX_DEPTH": "9",
			"SIDECAR_STORE":            "redis://:hunter2@",
		}),
		Flags: []config.Flag{
			{Name: "--admin", Key: "listen.admin", Value: "0.0.0.0:1"},
			{Name: "--agent", Key: "agents", Value: "a=nowhere"},
			{Name: "--agent", Key: "agents", Value: "d=http://d,kind=wrker"},
			{Name: "--agent", Key: "agents", Value: "e=http://e"},
			{Name: "--agent", Key: "agents", Value: "e=http://e"},
		},
	})
	want := `sidecar.yml:1: retain: "0s" is not more than 0
sidecar.yml:4: agents[1].url: "nope" is not an http or https URL with a host (such as http://worker:8080)
SIDECAR_LOG_LEVEL: log.level: "loud" is not one of debug, info, warn, error
--agent: kind: "wrker" is not one of branch, worker (did you mean worker?)
--admin: listen.admin: "0.0.0.0:1" is not a loopback address, and there is no admin.token.file (set admin.token.file, or listen on 127.0.0.1)
--agent: agents[0].url: "nowhere" is not an http or https URL with a host (such as http://worker:8080)
--agent: agents[3].name: "e" is the name of agents[2] too
SIDECAR_LIMITS_MAX_DEPTH: limits.maxDepth: "9" is not within 1 to 4
SIDECAR_STORE: store: "redis://xxxxx@" is not a URL with a host (such as sqlite:sidecar.db or redis://localhost:6379)`
	if diff := cmp.Diff(want, faultsOf(t, err).Error()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func FuzzLoad(f *testing.F) {
	seeds := 0
	for _, pattern := range []string{"testdata/good/*.yml", "testdata/bad/*.yml", "sidecar.example.yml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
			seeds++
		}
	}
	if seeds < 20 {
		f.Fatalf("only %d seeds", seeds)
	}
	const hidden = "\x01never shown\x01"
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := config.Load(config.Source{
			YAML: src,
			LookupEnv: func(name string) (string, bool) {
				return hidden, !strings.HasPrefix(name, "SIDECAR_") && name != "UNSET"
			},
		})
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("Load succeeded, but Validate did not: %v", err)
			}
			return
		}
		for _, fault := range faultsOf(t, err) {
			if fault.Problem == "" {
				t.Errorf("fault without a problem: %+v", fault)
			}
			if strings.Contains(fault.Value+fault.Problem+fault.Hint, hidden) {
				t.Errorf("fault shows what a variable holds: %v", fault)
			}
		}
	})
}
