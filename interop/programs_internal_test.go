package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the table of programs names is there, and said once.
func TestPrograms(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{options: options{root: root}, bin: "bin", venvs: "venvs"}
	seen := map[string]bool{}
	for _, p := range programs {
		if seen[p.name] {
			t.Errorf("%s is there twice", p.name)
		}
		seen[p.name] = true
		if (p.agent == nil) != (len(p.serves) == 0) || (p.client == nil) != (len(p.speaks) == 0) {
			t.Errorf("%s has a command without lanes, or lanes without a command", p.name)
		}
		for _, r := range p.recipes {
			for _, file := range []string{r.dir, filepath.Join(r.dir, r.what), filepath.Join(r.dir, r.mod)} {
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s is made of what is not there: %v", p.name, err)
				}
			}
		}
		for _, command := range [][]string{p.agent, p.client} {
			for _, arg := range l.expand(command) {
				if strings.Contains(arg, "{") {
					t.Errorf("%s: %q is left in a command", p.name, arg)
				}
				if filepath.IsAbs(arg) {
					if _, err := os.Stat(arg); err != nil {
						t.Errorf("%s: %v", p.name, err)
					}
				}
			}
		}
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	find := func(name string) *program {
		if place(name) < 0 {
			t.Fatalf("no program %s", name)
		}
		return &programs[place(name)]
	}
	for _, tt := range []struct {
		short         bool
		only          string
		client, agent string
		want          int
	}{
		{client: "go2", agent: "go2", want: 2 * 6 * len(allScenarios)},  // both at once, and each alone
		{client: "go2", agent: "py", want: (6 + 3) * len(allScenarios)}, // no 0.3 alone
		{client: "js", agent: "py", want: 6 * len(allScenarios)},        // both at once
		{client: "go2", agent: "go03", want: 2 * len(allScenarios)},     // no HTTP+JSON
		{short: true, client: "go2", agent: "go2", want: 6 * len(shortScenarios)},
		{short: true, client: "js", agent: "py", want: 0},
		{short: true, client: "vercel", agent: "go2", want: 1},
		{only: "^go2/go2/GRPC/0.3/(list|get)$", client: "go2", agent: "go2", want: 4},
		{client: "adk13", agent: "strands", want: 0}, // no agent
		{client: "adk12", agent: "py", want: 3},
	} {
		l := &lab{options: options{short: tt.short}}
		if tt.only != "" {
			l.only = regexp.MustCompile(tt.only)
		}
		if got := len(l.runs(find(tt.client), find(tt.agent))); got != tt.want {
			t.Errorf("runs(%s, %s), short %t, only %q = %d, want %d", tt.client, tt.agent, tt.short, tt.only, got, tt.want)
		}
	}
	for _, r := range (&lab{}).runs(find("adk13"), find("go2")) {
		if !r.mode.noGRPC {
			t.Errorf("%s with the agent %s, want it without gRPC", r, r.mode)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := newReport()
	at := func(scenario string) one {
		return one{&programs[0], &programs[0], rpc, v10, scenario, mode{version: both}}
	}
	r.add(at("task"), outcome{compared: 2})
	r.add(at("list"), outcome{erred: "list: not supported"})
	r.add(at("card"), outcome{unsupported: "no such thing"})
	if r.failed() {
		t.Error("failed() = true before anything has")
	}
	for _, id := range []string{idA, idB} {
		r.add(at("get"), outcome{failures: []failure{{"isolated", "GetTask", "task " + id + " became another"}}})
	}
	if !r.failed() {
		t.Error("failed() = false after something has")
	}
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return r.writeText(b) },
		func(b *bytes.Buffer) error { return r.writeMarkdown(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"✗ 2, ✓ 1, ! 1, – 1", "✗ task ID became another; isolated in GetTask; go2/go2/JSONRPC/1.0/get (agent both)",
			"! list: not supported; go2/go2/JSONRPC/1.0/list", "– no such thing; go2 JSONRPC 1.0 card",
		} {
			if strings.Count(b.String(), want) != 1 {
				t.Errorf("the report has %q not once:\n%s", want, b.String())
			}
		}
	}
}
