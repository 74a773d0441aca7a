package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// write prints the balance.
func (b *books) write(out io.Writer) error {
	var text bytes.Buffer
	w := b.world
	fmt.Fprintf(&text, "\nworld %s: %s of calls by %d conversations at a time, %d sidecars, seed %d\n\n",
		w.name, b.loaded.Round(time.Second), conversations, len(w.sidecars), b.seed)
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(cells ...any) {
		parts := make([]string, len(cells))
		for i, c := range cells {
			parts[i] = fmt.Sprint(c)
		}
		_, _ = fmt.Fprintf(t, "  %s\n", strings.Join(parts, "\t")) // a buffer takes it all
	}
	section := func(title string) {
		_ = t.Flush() // likewise
		fmt.Fprintf(&text, "\n %s\n", title)
	}
	fmt.Fprintln(&text, " what was broken")
	for _, name := range slices.Sorted(maps.Keys(w.struck)) {
		line(name, w.struck[name])
	}
	b.writeCalls(section, line)
	b.writeRecord(section, line)

	section("held against each other")
	l := w.ledger
	l.mu.Lock()
	line("most sessions at work for one caller", fmt.Sprintf("%d of %d", l.most[""], l.children))
	for _, agent := range slices.Sorted(maps.Keys(l.concurrent)) {
		line("most messages at work at "+agent, fmt.Sprintf("%d of %d", l.most[agent], l.concurrent[agent]))
	}
	line("begun at the agents", l.runs, fmt.Sprintf("%d of them counted against no cap any more", l.drifted))
	l.mu.Unlock()
	line("messages that agents worked on", b.begun, fmt.Sprintf("%d of them not in the record", b.unrecorded))
	line("messages answered", b.good, fmt.Sprintf("%d with a completed run, %d within %s of the sidecar's death, %d without", b.told, b.cut, dying, b.unfinished))
	line("places taken and freed", fmt.Sprintf("%d, %d", b.taken, b.freed))
	line("live when all was over", b.live, fmt.Sprintf("after %s", b.quieted.Round(100*time.Millisecond)))
	if w.store.overdue != nil {
		line("trees overdue", b.overdue)
	}
	if !w.store.keeps {
		line("lost by the store", b.unrecorded+b.unfinished, "a replica that takes over lacks what its master acknowledged last")
	}
	if len(b.complaints) > 0 {
		section("errors in the sidecars' logs")
		for _, what := range slices.Sorted(maps.Keys(b.complaints)) {
			line(what, b.complaints[what])
		}
	}
	_ = t.Flush() // likewise
	fmt.Fprintln(&text)
	if len(b.findings) == 0 {
		fmt.Fprintf(&text, " %s: balanced\n", w.name)
	}
	for i, f := range b.findings {
		if i == maxFindings {
			fmt.Fprintf(&text, " and %d more\n", len(b.findings)-i)
			break
		}
		fmt.Fprintf(&text, " IMBALANCE (seed %d): %s\n", b.seed, f)
	}
	_, err := out.Write(text.Bytes())
	return err
}

func (b *books) writeCalls(section func(string), line func(...any)) {
	t := b.world.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	type kind struct {
		result result
		reason string
	}
	by := map[kind][2]int{}
	var sum [2]int
	for e, n := range t.outcomes {
		who := 0
		if e.byAgent {
			who = 1
		}
		k := kind{e.result, e.reason}
		row := by[k]
		row[who] += n
		by[k] = row
		sum[who] += n
	}
	section("calls through the sidecars")
	line("", "of coordinators", "of agents")
	line("made", sum[0], sum[1])
	for _, k := range slices.SortedFunc(maps.Keys(by), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.result, b.result), cmp.Compare(a.reason, b.reason))
	}) {
		line(short(string(k.result)+" "+k.reason), by[k][0], by[k][1])
	}
	line("slowest answer", t.slowest.Round(time.Millisecond))
	if len(t.asks) > 0 {
		section("questions about tasks")
		for _, what := range slices.Sorted(maps.Keys(t.asks)) {
			line(short(what), t.asks[what])
		}
	}
}

// short is what stands in a table of some words.
func short(words string) string {
	const most = 60
	if words = strings.TrimSpace(words); len(words) > most {
		return words[:most] + "…"
	}
	return words
}

func (b *books) writeRecord(section func(string), line func(...any)) {
	states := func(of map[standing]int) {
		for _, s := range slices.SortedFunc(maps.Keys(of), func(a, b standing) int {
			return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.reason, b.reason))
		}) {
			line(strings.TrimSpace(string(s.state)+" "+s.reason), of[s])
		}
	}
	section(fmt.Sprintf("the record: %d trees, %d events", b.trees, b.events))
	line("runs")
	states(b.runs)
	line("sessions")
	states(b.sessions)
}

// verdict is how a conformance case went.
type verdict struct {
	name string
	took time.Duration
	err  error // nil: as it should
}

func writeVerdicts(out io.Writer, all []verdict) (passed bool, err error) {
	passed = true
	var text bytes.Buffer
	for _, v := range all {
		if v.err == nil {
			fmt.Fprintf(&text, "ok    %s (%.1f s)\n", v.name, v.took.Seconds())
			continue
		}
		passed = false
		fmt.Fprintf(&text, "FAIL  %s: %v\n", v.name, v.err)
	}
	_, err = out.Write(text.Bytes())
	return passed, err
}
