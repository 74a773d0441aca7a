package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

// TestMain lets this test's own binary play the roles, as bench does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleFlag {
		main()
		return
	}
	os.Exit(m.Run())
}

// A whole run over processes of its own, without the sidecar.
func TestRun(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	err := run(t.Context(), []string{"-only", "bare", "-rounds", "2", "-duration", "100ms", "-o", "json"}, nil, &out, &progress)
	if err != nil {
		t.Fatalf("run() = %v\n%s", err, &progress)
	}
	var got struct {
		Targets []struct {
			Target    string
			RPS       struct{ Median float64 }
			RPSToBare struct{ Median float64 }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in:\n%s", err, &out)
	}
	var names []string
	for _, r := range got.Targets {
		names = append(names, r.Target)
		if r.RPS.Median <= 0 {
			t.Errorf("%s: %g rps", r.Target, r.RPS.Median)
		}
	}
	if diff := cmp.Diff([]string{nameDirect, nameBare}, names); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if n := strings.Count(progress.String(), "round"); n != 2 {
		t.Errorf("progress tells of %d rounds, want 2:\n%s", n, &progress)
	}
}

func TestRoleEndsWithItsInput(t *testing.T) {
	t.Parallel()
	in, end := io.Pipe()
	addr, says := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- play(t.Context(), roleAgent, "", in, says) }()
	if n, err := addr.Read(make([]byte, 64)); err != nil || n == 0 {
		t.Fatalf("the address: %d bytes, %v", n, err)
	}
	_ = end.Close()
	if err := <-done; err != nil {
		t.Errorf("play() = %v, want nil", err)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-only", "mysql"},
		{"-o", "xml"},
		{"-rounds", "0"},
		{"-duration", "1ms"},
		{"-nonsense"},
		{"word"},
	} {
		var said bytes.Buffer
		if _, err := parse(args, &said); !errors.Is(err, errUsage) || said.Len() == 0 {
			t.Errorf("parse(%q) = %v and said %q, want %v and a reason", args, err, &said, errUsage)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-short", "-rounds", "7"}, io.Discard)
	if err != nil || o.rounds != 7 || o.duration != 600*time.Millisecond {
		t.Errorf("parse(-short -rounds 7) = %d rounds of %s, %v, want 7 of 600ms", o.rounds, o.duration, err)
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		only            string
		proxies, stores bool
	}{
		{"", true, true},
		{"redis", true, false},
		{"bare", true, false},
		{"cost,record", false, true},
		{"sqlite,admission", true, true},
	} {
		o, err := parse([]string{"-only", tt.only}, io.Discard)
		if err != nil || o.ofProxies() != tt.proxies || o.ofStores() != tt.stores {
			t.Errorf("parse(-only %s) = proxies %t, stores %t, %v, want %t, %t", tt.only, o.ofProxies(), o.ofStores(), err, tt.proxies, tt.stores)
		}
	}
}

// What the sidecars are started with must be a configuration that it takes.
func TestConfigIsValid(t *testing.T) {
	t.Parallel()
	b, err := configFor("http://127.0.0.1:1", "sqlite:x.db")
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Source{Name: "bench.yml", YAML: b})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Agents) != 1 || !c.Agents[0].IsolateSessions || c.Limits.MaxChildren == 0 || c.Limits.MaxFanOut == 0 ||
		c.Limits.MaxSessions == 0 || c.Agents[0].Limits.MaxConcurrent == 0 || c.Record.Content != config.RecordContentText {
		t.Errorf("not everything is on: %+v", c)
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line, name string
		value      float64
		ok         bool
	}{
		{`a2a_sidecar_unrecorded_total{agent="worker one"} 3`, "a2a_sidecar_unrecorded_total", 3, true},
		{`a2a_sidecar_record_dropped_total 1e+06`, "a2a_sidecar_record_dropped_total", 1e6, true},
		{`# HELP x y 1`, "", 0, false},
		{``, "", 0, false},
	} {
		name, value, ok := sample(tt.line)
		if name != tt.name || value != tt.value || ok != tt.ok {
			t.Errorf("sample(%q) = %q, %g, %t, want %q, %g, %t", tt.line, name, value, ok, tt.name, tt.value, tt.ok)
		}
	}
}

var trailing = regexp.MustCompile(`(?m) +$`)

// Ratios and differences are taken within a round, before the median: the
// rounds here differ tenfold in speed, as those of a busy machine do.
func TestReport(t *testing.T) {
	t.Parallel()
	at := func(rps, p50, p99 float64, cpu ...float64) *reading {
		return &reading{RPS: rps, P50: p50, P99: p99, FirstP50: p50 * 2, CPU: cpu}
	}
	rounds := []map[string]*reading{
		{nameDirect: at(20000, 0.1, 0.5), nameBare: at(10000, 0.2, 1.0, 0.08), nameSQLite: at(5000, 0.3, 1.5, 0.2, 0.1)},
		{nameDirect: at(2000, 1, 5), nameBare: at(1000, 2, 10, 0.09), nameSQLite: at(600, 3, 12, 0.4, 0.1)},
		{nameDirect: at(4000, 0.5, 2), nameBare: at(2000, 1, 3, 0.07), nameSQLite: at(800, 1.5, 2.5, 0.3, 0.1)},
	}
	res := &result{Machine: "a machine", Settings: "some settings", Rate: 500, Notes: []string{"a note"}}
	for _, name := range []string{nameDirect, nameBare, nameSQLite} {
		row := newRow(name, rounds)
		row.title, row.sidecar = name, name == nameSQLite
		res.Rows = append(res.Rows, row)
	}
	res.Rows[2].Resident = []int64{50 << 20, 20 << 20}
	var out bytes.Buffer
	if err := res.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	const want = `a machine
some settings

  target              rps  ÷ direct            ÷ bare  p50 ms  p99 ms       +p99 to direct         +p99 to bare  first event ms     CPU s/1k   RSS MB
  direct             4000      1.00                      0.50    2.00                                                      1.00
  bare               2000      0.50                 1    1.00    3.00  +1.00 (+0.50…+5.00)                                 2.00         0.08
  sqlite              800      0.25  0.50 (0.40…0.60)    1.50    2.50  +1.00 (+0.50…+7.00)  +0.50 (-0.50…+2.00)            3.00  0.30 + 0.10  50 + 20

medians over the rounds (least…most); latency at 500/s counts from when a call was due; a + is the store's server
sqlite: 0.50 of the bare proxy's throughput (aim ≥ 0.80), 0.50 ms added p99 (aim ≤ 1 ms), first event in 1.50 of its time
a note
`
	if diff := cmp.Diff(want, trailing.ReplaceAllString(out.String(), "")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	rounds[0][nameBare].P99 = math.NaN() // JSON has none
	res.Rows[1] = newRow(nameBare, rounds[:1])
	out.Reset()
	res.Rows = res.Rows[:2]
	res.Rows[1].Rounds = nil
	if err := res.writeJSON(&out); err != nil || !strings.Contains(out.String(), `"p99Ms": null`) {
		t.Errorf("writeJSON() = %v, want null for what was not measured:\n%s", err, &out)
	}
}
