package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// describeDemo is the outcome for people: the two scenes side by side, the tree
// that they grew, the caps at work, and where to go on.
func describeDemo(o *demoOutcome, st style, now time.Time) (string, error) {
	d := &demoPage{style: st}
	d.heading("One conversation, " + plural(o.Calls, "call") + " at once. Twice.")
	d.scenes(o)
	d.heading("The tree that the sidecar recorded")
	if err := drawTree(&d.b, o.Sessions, now, st); err != nil {
		return "", err
	}
	d.heading(fmt.Sprintf("The caps at work (maxChildren: %d)", o.MaxChildren))
	d.caps(o)
	d.heading("Look around")
	d.next(o)
	return d.b.String(), nil
}

// demoPage is the text of the demo as it grows.
type demoPage struct {
	style
	b strings.Builder
}

func (d *demoPage) heading(text string) {
	if d.b.Len() > 0 {
		d.b.WriteByte('\n')
	}
	d.b.WriteString(d.paint(text, bold) + "\n\n")
}

// scenes sets the shared scene and the isolated one side by side.
func (d *demoPage) scenes(o *demoOutcome) {
	var t table
	row := func(what string, of func(*demoScene) (text, sgr string)) {
		cells := []cell{{text: what, sgr: dim}}
		for _, s := range [...]*demoScene{&o.Shared, &o.Isolated} {
			text, sgr := of(s)
			cells = append(cells, cell{text: clean(text, d.ascii), sgr: sgr})
		}
		t.add(cells...)
	}
	row("", func(s *demoScene) (string, string) { return s.Agent, bold })
	row("isolateSessions", func(s *demoScene) (string, string) { return fmt.Sprint(s.Isolate), plain })
	row("calls sent", func(s *demoScene) (string, string) { return fmt.Sprint(s.Sent), plain })
	row("context id sent", func(*demoScene) (string, string) {
		return "the conversation's, " + d.or("…", "..") + tail(o.Conversation), plain
	})
	row("contexts at the agent", func(s *demoScene) (string, string) { return fmt.Sprint(s.Contexts), s.colour() })
	row("messages in each", func(s *demoScene) (string, string) { return s.Messages.String(), plain })
	row("others' messages read", func(s *demoScene) (string, string) {
		if s.Foreign.Most == 0 {
			return "none", s.colour()
		}
		return s.Foreign.String() + " by each call", s.colour()
	})
	row(fmt.Sprintf("%q also read", o.Shared.Topic), func(s *demoScene) (string, string) { return someOf(s.AlsoRead), plain })
	row("the sidecar's record", func(s *demoScene) (string, string) {
		if s.Collapsed == 0 {
			return "nothing to note", plain
		}
		return fmt.Sprintf("%s %d", lineage.EventCollapsed+d.or(" ×", " x"), s.Collapsed), plain
	})
	row("", func(s *demoScene) (string, string) {
		counts := plural(s.Answered, "call") + " in " + plural(s.Contexts, "session")
		if s.tangled() {
			return d.or("✗", "x") + " tangled: " + counts, s.colour()
		}
		return d.or("✓", "+") + " clean: " + counts, s.colour()
	})
	d.b.WriteString(t.draw(d.style))
}

func (s *demoScene) tangled() bool { return s.Foreign.Most > 0 }

func (s *demoScene) colour() string {
	if s.tangled() {
		return red
	}
	return green
}

// caps tells what became of more calls than there are places.
func (d *demoPage) caps(o *demoOutcome) {
	var t table
	head := func(text string) cell { return cell{text: text, sgr: dim, right: true} }
	number := func(n int, sgr string) cell {
		if n == 0 {
			sgr = plain
		}
		return cell{text: fmt.Sprint(n), sgr: sgr, right: true}
	}
	t.add(cell{}, head("queueTimeout"), head("sent"), head("at work at once"), head("waited"), head("refused"))
	for _, s := range [...]*demoScene{&o.Isolated, &o.Hasty} {
		timeout := "0"
		if s.QueueTimeout > 0 {
			timeout = span(time.Duration(s.QueueTimeout))
		}
		t.add(cell{text: s.Agent}, cell{text: timeout, right: true}, number(s.Sent, plain),
			number(s.AtOnce, green), number(s.Queued, yellow), number(s.Refused, red))
	}
	d.b.WriteString(t.draw(d.style))
	d.b.WriteString("\nThe coordinator reads in a refusal:\n")
	for _, line := range fold(clean(o.Hasty.Refusal, d.ascii), demoWidth-len(gap)) {
		d.b.WriteString(gap + d.paint(line, red) + "\n")
	}
}

// next tells how to look at what is there.
func (d *demoPage) next(o *demoOutcome) {
	var t table
	try := func(command, what string) { t.add(cell{text: command, sgr: cyan}, cell{text: what, sgr: dim}) }
	look := func(where string) {
		try("sidecar trees"+where, "")
		try("sidecar tree "+o.Conversation+where, "")
		try("sidecar events "+o.Conversation+" --as all"+where, "")
	}
	last := ""
	switch {
	case o.Admin != "":
		look(" --admin " + o.Admin)
		try("curl "+o.Admin+"/api/v1/trees/"+o.Conversation, "")
		try("curl "+o.Outbound+"/agents/"+o.Shared.Agent+"/.well-known/agent-card.json", "")
		last = "The sidecar stays up until Ctrl-C: admin " + o.Admin + ", outbound " + o.Outbound
	case o.Store != "":
		look(" --store " + shellWord(clean(o.Store, d.ascii)))
		last = "The sidecar has ended. Its record is still there."
	default:
		try("sidecar demo", "stays up, to look around")
		try("sidecar demo --once --store sqlite:demo.db", "leaves the record")
		last = "The sidecar has ended, and its record with it."
	}
	d.b.WriteString(t.draw(d.style) + "\n" + last + "\n")
}

// String is the range in words.
func (r demoRange) String() string {
	if r.Least == r.Most {
		return fmt.Sprint(r.Least)
	}
	return fmt.Sprintf("%d to %d", r.Least, r.Most)
}

// someOf names the first of many.
func someOf(names []string) string {
	const named = 2
	switch n := len(names); {
	case n == 0:
		return "nothing else"
	case n <= named:
		return strings.Join(names, ", ")
	default:
		return fmt.Sprintf("%s, %d more", strings.Join(names[:named], ", "), n-named)
	}
}

// tail is the end of an id, which tells it from others made at the same time.
func tail(id string) string { return id[max(0, len(id)-12):] }

// fold breaks text between words into lines of at most n columns. A word that
// is longer stands on a line of its own.
func fold(text string, n int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columns(line)+1+columns(word) > n {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// shellWord quotes text where a shell would not take it for one word.
func shellWord(text string) string {
	if !strings.ContainsAny(text, " \t\"'\\$`&|;<>()*?#~!{}[]") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
