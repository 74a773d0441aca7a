package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what the runs came to.
type report struct {
	cells map[cellKey]*cell
	order []pair  // rows, as they came
	notes []*note // in the order of their first run
	extra []row
}

type pair struct{ client, agent string }

type cellKey struct {
	pair
	binding, version string
}

// cell is a client with an agent over one binding in one version, in every mode
// of the agent.
type cell struct {
	passed, erred, unsupported, failed []string // scenarios
}

// note is one thing that was found, and where.
type note struct {
	mark, what        string
	ways, calls, runs []string
}

// row is the result of an experiment.
type row struct {
	name, direct, through string
	failed                bool
}

func newReport() *report { return &report{cells: map[cellKey]*cell{}} }

func (r *report) add(run one, o outcome) {
	key := cellKey{pair{run.client.name, run.agent.name}, run.binding, run.version}
	if !slices.Contains(r.order, key.pair) {
		r.order = append(r.order, key.pair)
	}
	c := r.cells[key]
	if c == nil {
		c = &cell{}
		r.cells[key] = c
	}
	switch {
	case len(o.failures) > 0:
		c.failed = append(c.failed, run.scenario)
		for _, f := range o.failures {
			n := r.note("✗", f.what)
			put(&n.ways, f.way)
			put(&n.calls, f.about)
			put(&n.runs, fmt.Sprintf("%s (agent %s)", run, run.mode))
		}
	case o.unsupported != "":
		c.unsupported = append(c.unsupported, run.scenario)
		n := r.note("–", o.unsupported)
		put(&n.runs, strings.Join([]string{run.client.name, run.binding, run.version, run.scenario}, " "))
	case o.erred != "":
		c.erred = append(c.erred, run.scenario)
		n := r.note("!", o.erred)
		put(&n.runs, run.String())
	default:
		c.passed = append(c.passed, run.scenario)
	}
}

// note is the one that says what, whichever run it is about.
func (r *report) note(mark, what string) *note {
	what = strings.Join(strings.Fields(anyID.ReplaceAllString(anyAddress.ReplaceAllString(what, "ADDRESS"), "ID")), " ")
	for _, n := range r.notes {
		if n.mark == mark && n.what == what {
			return n
		}
	}
	n := &note{mark: mark, what: what}
	r.notes = append(r.notes, n)
	return n
}

// put adds a name to a list that has each once.
func put(list *[]string, name string) {
	if name != "" && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// String is the note in one line.
func (n *note) String() string {
	var s strings.Builder
	s.WriteString(n.mark + " " + n.what)
	for _, list := range []struct {
		intro string
		names []string
	}{{"; ", n.ways}, {" in ", n.calls}, {"; ", n.runs}} {
		const most = 6
		if names := list.names; len(names) > most {
			fmt.Fprintf(&s, "%s%s and %d more", list.intro, strings.Join(names[:most], ", "), len(names)-most)
		} else if len(names) > 0 {
			s.WriteString(list.intro + strings.Join(names, ", "))
		}
	}
	return s.String()
}

// failed reports whether anything did.
func (r *report) failed() bool {
	for _, c := range r.cells {
		if len(c.failed) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(r.extra, func(x row) bool { return x.failed })
}

// String is what a table shows of a cell.
func (c *cell) String() string {
	if c == nil {
		return ""
	}
	var parts []string
	for _, marked := range []struct {
		mark      string
		scenarios []string
	}{{"✗", c.failed}, {"✓", c.passed}, {"!", c.erred}, {"–", c.unsupported}} {
		if n := len(marked.scenarios); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", marked.mark, n))
		}
	}
	return strings.Join(parts, ", ")
}

// columns of the matrix.
var columns = []struct{ binding, version string }{
	{rpc, v10}, {rest, v10}, {grpc, v10}, {rpc, v03}, {rest, v03}, {grpc, v03},
}

// table is the matrix as cells of text, its head first.
func (r *report) table() [][]string {
	head := []string{"client", "agent"}
	for _, c := range columns {
		head = append(head, c.binding+" "+c.version)
	}
	rows := [][]string{head}
	slices.SortStableFunc(r.order, func(a, b pair) int { return cmp.Compare(place(a.client), place(b.client)) })
	for _, p := range r.order {
		line := []string{sdkOf(p.client), sdkOf(p.agent)}
		for _, c := range columns {
			line = append(line, r.cells[cellKey{p, c.binding, c.version}].String())
		}
		rows = append(rows, line)
	}
	return rows
}

func (r *report) experiments() [][]string {
	rows := [][]string{{"experiment", "directly", "through the sidecar", ""}}
	for _, x := range r.extra {
		mark := "✓"
		if x.failed {
			mark = "✗"
		}
		rows = append(rows, []string{x.name, x.direct, x.through, mark})
	}
	return rows
}

func place(name string) int {
	return slices.IndexFunc(programs, func(p program) bool { return p.name == name })
}

func sdkOf(name string) string { return name + " (" + programs[place(name)].sdk + ")" }

const legend = `✓ runs that are as without the sidecar, to the byte where package compare allows nothing else
! runs that are so too, with an error: agent and client do not get on directly either
– runs that the client's SDK cannot do
✗ runs in which something differs
empty: one of the two does not have the binding`

func (r *report) writeText(w io.Writer) error {
	var b strings.Builder
	for _, rows := range r.tables() {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, line := range rows {
			_, _ = io.WriteString(t, strings.Join(line, "\t")+"\n") // Flush tells
		}
		if err := t.Flush(); err != nil {
			return err
		}
		b.WriteString("\n")
	}
	b.WriteString(legend + "\n")
	r.writeNotes(&b, "  ")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	for _, rows := range r.tables() {
		for i, line := range rows {
			for j := range line {
				line[j] = strings.ReplaceAll(line[j], "|", `\|`)
			}
			b.WriteString("| " + strings.Join(line, " | ") + " |\n")
			if i == 0 {
				b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(strings.ReplaceAll(legend, "\n", "\\\n") + "\n")
	r.writeNotes(&b, "- ")
	_, err := io.WriteString(w, b.String())
	return err
}

// tables are what there is to show.
func (r *report) tables() [][][]string {
	tables := [][][]string{r.table()}
	if len(r.extra) > 0 {
		tables = append(tables, r.experiments())
	}
	return tables
}

// writeNotes lists what the marks are about, each thing once.
func (r *report) writeNotes(b *strings.Builder, bullet string) {
	if len(r.notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range r.notes {
		b.WriteString(bullet + n.String() + "\n")
	}
}
