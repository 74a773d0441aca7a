package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"text/tabwriter"
)

// The aims, printed beside what was measured and judged by the reader.
const (
	aimThroughput = 0.80 // of the bare proxy's
	aimAddedP99   = 1.0  // ms over the bare proxy
)

// result is what the table and the JSON show.
type result struct {
	Machine  string   `json:"machine"`
	Settings string   `json:"settings"`
	Rows     []row    `json:"targets"`
	Stores   *stores  `json:"stores,omitempty"` // nil: not measured
	Notes    []string `json:"notes,omitempty"`
	Broken   []string `json:"broken,omitempty"` // why the numbers are not to be trusted
	Rate     int      `json:"rate"`             // at which latency was measured
}

// row is one target: medians over the rounds, and for what compares it with
// another the median of the rounds' own comparisons.
type row struct {
	Target   string    `json:"target"`
	title    string    // for the table
	sidecar  bool      // the aims are for it
	RPS      spread    `json:"rps"`
	ToDirect spread    `json:"rpsToDirect"`
	ToBare   spread    `json:"rpsToBare"`
	P50      spread    `json:"p50Ms"`
	P99      spread    `json:"p99Ms"`
	P50Added added     `json:"addedP50Ms"`
	P99Added added     `json:"addedP99Ms"`
	FirstP50 spread    `json:"firstEventP50Ms"`
	FirstBy  spread    `json:"firstEventToBare"`
	CPU      []spread  `json:"cpuSecondsPer1k"` // of the proxy, and of its store's server
	Resident []int64   `json:"residentBytes"`   // of the same, after the last round
	Rounds   []reading `json:"rounds"`
}

// added is a difference to direct and to the bare proxy.
type added struct {
	Direct spread `json:"toDirect"`
	Bare   spread `json:"toBare"`
}

// MarshalJSON writes null for what was not measured: JSON has no NaN.
func (s spread) MarshalJSON() ([]byte, error) {
	if math.IsNaN(s.Median) {
		return []byte("null"), nil
	}
	return json.Marshal(map[string]float64{"median": s.Median, "min": s.Min, "max": s.Max})
}

func newResult(o options, w *world, rounds []map[string]*reading) *result {
	res := &result{
		Machine: machine(w),
		Settings: fmt.Sprintf("%d rounds, each target %s at %d connections, %s at %d/s, %s of streams on %d; %d B calls, %d to a root context",
			o.rounds, o.duration, o.conns, o.duration, o.rate, o.duration/2, streamConns, bodySize, o.tree),
		Rate:  o.rate,
		Notes: w.notes,
	}
	for _, t := range w.targets {
		r := newRow(t.name, rounds)
		r.title, r.sidecar = t.title, t.sidecar
		for _, pid := range t.pids {
			if n, err := residentBytes(pid); err == nil { // else the column stays empty
				r.Resident = append(r.Resident, n)
			}
		}
		res.Rows = append(res.Rows, r)
	}
	return res
}

func newRow(name string, rounds []map[string]*reading) row {
	r := row{Target: name}
	each := func(value func(at map[string]*reading) float64) spread {
		values := make([]float64, len(rounds))
		for i, at := range rounds {
			values[i] = value(at)
		}
		return over(values)
	}
	rps := func(at *reading) float64 { return at.RPS }
	p50 := func(at *reading) float64 { return at.P50 }
	p99 := func(at *reading) float64 { return at.P99 }
	mine := func(of func(*reading) float64) spread {
		return each(func(at map[string]*reading) float64 { return of(at[name]) })
	}
	ratio := func(to string) spread {
		return each(func(at map[string]*reading) float64 { return at[name].RPS / at[to].RPS })
	}
	extra := func(of func(*reading) float64) added {
		over := func(base string) spread {
			return each(func(at map[string]*reading) float64 { return of(at[name]) - of(at[base]) })
		}
		return added{Direct: over(nameDirect), Bare: over(nameBare)}
	}
	r.RPS, r.ToDirect, r.ToBare = mine(rps), ratio(nameDirect), ratio(nameBare)
	r.P50, r.P50Added = mine(p50), extra(p50)
	r.P99, r.P99Added = mine(p99), extra(p99)
	first := func(at *reading) float64 { return at.FirstP50 }
	r.FirstP50 = mine(first)
	r.FirstBy = each(func(at map[string]*reading) float64 { return first(at[name]) / first(at[nameBare]) })
	for i := range rounds[0][name].CPU {
		r.CPU = append(r.CPU, mine(func(at *reading) float64 {
			if i < len(at.CPU) {
				return at.CPU[i]
			}
			return math.NaN()
		}))
	}
	for _, at := range rounds {
		r.Rounds = append(r.Rounds, *at[name])
	}
	return r
}

func machine(w *world) string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if m := cpuModel(); m != "" {
		parts = append(parts, m)
	}
	parts = append(parts, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	if w.redis != nil {
		parts = append(parts, "Redis "+w.redis.version)
	}
	return strings.Join(parts, ", ")
}

func (r *result) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *result) writeTable(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintln(&out, r.Machine)
	if len(r.Rows) > 0 {
		r.writeTargets(&out)
	}
	if r.Stores != nil {
		r.Stores.write(&out)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(&out, n)
	}
	for _, b := range r.Broken {
		fmt.Fprintln(&out, "BROKEN:", b)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeTargets writes what was measured through the proxies.
func (r *result) writeTargets(out *bytes.Buffer) {
	fmt.Fprintf(out, "%s\n\n", r.Settings)
	r.writeRows(out)
	fmt.Fprintf(out, "\nmedians over the rounds (least…most); latency at %d/s counts from when a call was due; a + is the store's server\n", r.Rate)
	for _, row := range r.Rows {
		if row.sidecar {
			fmt.Fprintf(out, "%s: %s of the bare proxy's throughput (aim ≥ %.2f), %s ms added p99 (aim ≤ %g ms), first event in %s of its time\n",
				row.title, row.ToBare.text("%.2f"), aimThroughput, row.P99Added.Bare.text("%.2f"), aimAddedP99, row.FirstBy.text("%.2f"))
		}
	}
}

func (r *result) writeRows(out *bytes.Buffer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(target string, cells ...string) {
		_, _ = fmt.Fprintf(t, "%-17s\t%s\t\n", target, strings.Join(cells, "\t")) // a buffer takes it all
	}
	line("target", "rps", "÷ direct", "÷ bare", "p50 ms", "p99 ms", "+p99 to direct", "+p99 to bare", "first event ms", "CPU s/1k", "RSS MB")
	for _, row := range r.Rows {
		toBare, addedDirect, addedBare := row.ToBare.ranged("%.2f"), row.P99Added.Direct.ranged("%+.2f"), row.P99Added.Bare.ranged("%+.2f")
		switch row.Target {
		case nameDirect:
			toBare, addedDirect, addedBare = "", "", ""
		case nameBare:
			toBare, addedBare = "1", ""
		}
		line(row.title, row.RPS.text("%.0f"), row.ToDirect.text("%.2f"), toBare, row.P50.text("%.2f"), row.P99.text("%.2f"),
			addedDirect, addedBare, row.FirstP50.text("%.2f"), row.cpu(), row.resident())
	}
	_ = t.Flush() // likewise
}

// text is the median; a dash if there is none.
func (s spread) text(format string) string {
	if math.IsNaN(s.Median) {
		return "–"
	}
	return fmt.Sprintf(format, s.Median)
}

// ranged is the median with the least and the most.
func (s spread) ranged(format string) string {
	if math.IsNaN(s.Median) {
		return "–"
	}
	return fmt.Sprintf(format+" ("+format+"…"+format+")", s.Median, s.Min, s.Max)
}

func (r *row) cpu() string {
	var parts []string
	for _, s := range r.CPU {
		parts = append(parts, s.text("%.2f"))
	}
	return strings.Join(parts, " + ")
}

func (r *row) resident() string {
	var parts []string
	for _, n := range r.Resident {
		parts = append(parts, fmt.Sprintf("%.0f", float64(n)/(1<<20)))
	}
	return strings.Join(parts, " + ")
}
