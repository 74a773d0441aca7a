package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

const (
	contextColumn = 6 // of a row, from 0
	minContext    = 9 // fewest columns in which a context id is worth showing
)

// drawTree draws a tree whose sessions are in spawn order: a line about the
// whole, then one for each session. All siblings are shown, however many.
func drawTree(w io.Writer, sessions []lineage.Session, now time.Time, st style) error {
	return drawPart(w, sessions, nil, now, st)
}

// drawPart does the same with the first sessions of a tree that has more of
// them. Whole is what that tree counts; nil: these are all.
func drawPart(w io.Writer, sessions []lineage.Session, whole *adminapi.Counts, now time.Time, st style) error {
	if len(sessions) == 0 {
		return nil
	}
	d := &drawing{style: st, now: now, last: lastActivity(sessions, now)}
	top := adminapi.Nest(sessions)
	for i := range top {
		d.session(&top[i], nil, "", "")
	}
	d.fitContexts()
	if _, err := io.WriteString(w, d.header(sessions, whole)+d.table.draw(st)); err != nil {
		return fmt.Errorf("drawing the tree: %w", err)
	}
	return nil
}

type drawing struct {
	style
	now   time.Time
	last  time.Time // of the last thing that happened in the tree; now if something runs
	table table
}

// session adds the row of s and those below it. Lead is what stands before
// the name of s, below what stands before those of its children.
func (d *drawing) session(s, parent *adminapi.Session, lead, below string) {
	nameColour, agent := plain, s.Agent
	if parent == nil {
		nameColour = bold
	}
	name := d.name(s, parent)
	if agentOf, _, _ := strings.Cut(name, "@"); agentOf == agent {
		agent = ""
	}
	mark, stateColour := d.mark(&s.Session)
	d.table.add(
		cell{lead: lead, text: d.clean(name), sgr: nameColour},
		cell{text: d.clean(agent)},
		cell{text: d.clean(string(s.Kind)), sgr: dim},
		cell{text: d.clean(mark + " " + stateOf(&s.Session)), sgr: stateColour},
		cell{text: d.lasted(&s.Session), right: true},
		cell{text: d.notes(&s.Session), sgr: yellow},
		cell{text: d.clean(s.ContextID), sgr: dim},
	)
	for i := range s.Children {
		branch, stem := d.or("├─ ", "|- "), d.or("│  ", "|  ")
		if i == len(s.Children)-1 {
			branch, stem = d.or("└─ ", "`- "), "   "
		}
		d.session(&s.Children[i], s, below+branch, below+stem)
	}
}

func (d *drawing) clean(text string) string { return clean(text, d.ascii) }

// name is the last segment of the branch label; the whole of it at the top.
func (d *drawing) name(s, parent *adminapi.Session) string {
	if s.Branch == "" {
		return s.ID
	}
	if parent != nil {
		if own, ok := strings.CutPrefix(s.Branch, parent.Branch+"."); ok {
			return own
		}
	}
	return s.Branch
}

// stateOf says how s stands: what it is, and whether it is asked to stop.
func stateOf(s *lineage.Session) string {
	state := strings.Join(words(string(s.State), s.Reason), " ")
	switch {
	case s.Reserved && s.State == lineage.Active:
		state = "reserved"
	case s.Reserved:
		state += ", reserved"
	}
	if s.Ending != "" {
		state += ", canceling (" + s.Ending + ")"
	}
	return state
}

// mark is the sign and the colour of a session's state. An active session in
// which nothing runs has a hollow one.
func (d *drawing) mark(s *lineage.Session) (sign, colour string) {
	switch s.State {
	case lineage.Suspended:
		return d.or("◐", "~"), yellow
	case lineage.Completed:
		return d.or("✓", "+"), green
	case lineage.Failed:
		return d.or("✗", "x"), red
	case lineage.Expired:
		return d.or("◌", "-"), dim
	case lineage.Active:
		switch {
		case !d.running(s):
		case s.Ending != "":
			return d.or("●", "*"), yellow
		default:
			return d.or("●", "*"), cyan
		}
	}
	return d.or("○", "o"), plain
}

// running reports whether something is under way in s. What runs below the
// root runs in the root: its own runs are not recorded.
func (d *drawing) running(s *lineage.Session) bool {
	return works(s) || s.Kind == lineage.Main && !s.State.Terminal() && d.last.Equal(d.now)
}

// works reports whether a run of s is open or waits. A session may be live
// without: its place is reserved.
func works(s *lineage.Session) bool {
	return slices.ContainsFunc(s.Runs, func(r lineage.Run) bool { return !r.State.Terminal() })
}

// lasted is how long s has lasted: until its end, until now while something
// runs in it, else until something last did. Where nothing ever ran that is
// not known.
func (d *drawing) lasted(s *lineage.Session) string {
	until := lastEnd(s)
	switch {
	case s.EndedAt != nil:
		until = *s.EndedAt
	case s.Live():
		until = d.now
	case s.Kind == lineage.Main:
		until = d.last
	case len(s.Runs) == 0:
		return ""
	}
	return span(until.Sub(s.CreatedAt))
}

// notes tell what is out of the ordinary: above all a session that is shared
// by several calls.
func (d *drawing) notes(s *lineage.Session) string {
	var notes []string
	if len(s.Runs) > 1 {
		note, open := plural(len(s.Runs), "run"), 0
		for i := range s.Runs {
			if s.Runs[i].State == lineage.Active {
				open++
			}
		}
		if open > 1 {
			note += fmt.Sprintf(", %d at once", open)
		}
		notes = append(notes, note)
	}
	if s.Remote {
		notes = append(notes, "elsewhere")
	}
	if s.Edge == lineage.EdgeFork {
		notes = append(notes, "fork")
	}
	if s.Abandon && !s.State.Terminal() {
		notes = append(notes, "abandon") // as the configuration calls it: it outlives its parent
	}
	return strings.Join(notes, ", ")
}

// fitContexts makes room for the context ids, by shortening them or, where that
// would leave nothing of them, by leaving them out.
func (d *drawing) fitContexts() {
	const label = "ctx "
	room := d.width - (d.table.columns() - d.table.widths()[contextColumn]) - len(label)
	for _, row := range d.table.rows {
		switch id := &row[contextColumn].text; {
		case *id == "":
		case d.width == 0:
			*id = label + *id
		case room < minContext:
			*id = ""
		default:
			*id = label + d.squeeze(*id, room)
		}
	}
}

// header is the line about the whole tree; more than one where it is long. Of
// a tree that is drawn in part it tells only what is known of the whole.
func (d *drawing) header(sessions []lineage.Session, whole *adminapi.Counts) string {
	live, depth, errs := 0, 0, 0
	agents := map[string]bool{}
	started := sessions[0].CreatedAt
	for i := range sessions {
		s := &sessions[i]
		if s.Live() && s.Kind != lineage.Main {
			live++
		}
		depth = max(depth, s.Depth)
		agents[s.Agent] = true
		errs += failures(s)
		if s.CreatedAt.Before(started) {
			started = s.CreatedAt
		}
	}
	all := len(sessions)
	if whole != nil {
		all, live, depth, errs = whole.Sessions, whole.Live, whole.Depth, whole.Errors
	}
	facts := []string{plural(all, "session"), fmt.Sprintf("%d live", live), fmt.Sprintf("depth %d", depth)}
	if whole == nil {
		facts = append(facts, plural(len(agents), "agent"))
	}
	if errs > 0 {
		facts = append(facts, plural(errs, "error"))
	}
	facts = append(facts, "started "+d.clock(started, d.now))
	if whole == nil {
		facts = append(facts, span(d.last.Sub(started)))
	} else {
		facts = append(facts, fmt.Sprintf("the first %d drawn", len(sessions)))
	}
	dot := d.or(" · ", ", ")
	root := d.clean(sessions[0].Tree)
	line := strings.Join(facts, dot)
	if d.width == 0 || columns(root)+3+columns(line) <= d.width {
		return d.paint(root, bold) + "   " + line + "\n"
	}
	return d.paint(root, bold) + "\n" + wrap(facts, dot, d.width)
}

// wrap returns facts on as many lines as they need.
func wrap(facts []string, dot string, room int) string {
	var b strings.Builder
	line := gap + facts[0]
	for _, f := range facts[1:] {
		if columns(line+dot+f) > room {
			b.WriteString(line + "\n")
			line = gap + f
			continue
		}
		line += dot + f
	}
	b.WriteString(line + "\n")
	return b.String()
}

// failures counts the runs of s that failed, and s itself if it failed without.
func failures(s *lineage.Session) int {
	n := 0
	for i := range s.Runs {
		if s.Runs[i].State == lineage.Failed {
			n++
		}
	}
	if n == 0 && s.State == lineage.Failed {
		n = 1
	}
	return n
}

// lastActivity is now while something runs in the tree.
func lastActivity(sessions []lineage.Session, now time.Time) time.Time {
	last := sessions[0].CreatedAt
	for i := range sessions {
		if works(&sessions[i]) {
			return now
		}
		if t := lastEnd(&sessions[i]); t.After(last) {
			last = t
		}
	}
	return last
}

// lastEnd is when something last came to an end in s; its beginning if nothing
// has.
func lastEnd(s *lineage.Session) time.Time {
	last := s.CreatedAt
	if s.EndedAt != nil {
		last = *s.EndedAt
	}
	for i := range s.Runs {
		if end := s.Runs[i].EndedAt; end != nil && end.After(last) {
			last = *end
		}
	}
	return last
}
