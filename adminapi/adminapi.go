// Package adminapi is the admin API as its two ends share it: the JSON that
// goes over the wire, and a client for it.
//
//	sidecar tree, spawn … ──▶ Client ──HTTP──▶ admin ──▶ the record
//	                      ◀── TreeView, EventPage, Session … or *Problem
//
// Sessions, events and trees are those of package lineage, whose JSON is the
// API's; this package adds the envelopes around them. It knows no store and
// nothing of how a request is answered.
package adminapi

import (
	"context"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// AsAll is the viewer of the whole log, which is privileged: no branch sees so
// much.
const AsAll = "all"

// Sizes of pages.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// TreesQuery selects trees. The zero value selects the newest DefaultPage.
type TreesQuery struct {
	State  string // lineage.TreeActive or lineage.TreeIdle; empty: any
	Agent  string // trees in which this agent has a session; empty: any
	Text   string // part of the root context id, case-sensitive; empty: any
	Limit  int    // 1 to MaxPage; 0: DefaultPage
	Cursor string // TreePage.Next of the page before
}

// TreePage is a page of trees, newest first.
type TreePage struct {
	Trees []lineage.Tree `json:"trees"`
	Next  string         `json:"next,omitempty"` // cursor of the next page; empty on the last one
}

// SessionsQuery selects sessions of a tree. The zero value selects the first
// MaxPage.
type SessionsQuery struct {
	After int // leaves out so many from the first on; TreeView.Next of the page before
	Limit int // 1 to MaxPage; 0: MaxPage
}

// TreeView is one tree with its sessions, or a page of them.
type TreeView struct {
	Root     string    `json:"root"`
	Sessions []Session `json:"sessions"`         // in spawn order; nested: the root alone, the others inside
	Next     int       `json:"next,omitempty"`   // After of the next page; 0 on the last one
	Limits   *Limits   `json:"limits,omitempty"` // the caps that hold now; nil: the one who answers knows none
	Counts   Counts    `json:"counts"`           // of the whole tree
}

// ReadTree reads the tree root, a page after the other, until it has limit
// sessions, or all of them if that is 0. Next of what it returns is 0 if these
// are all. A tree that lives on while it is read is in no single state then.
func ReadTree(
	ctx context.Context, part func(context.Context, string, SessionsQuery) (TreeView, error), root string, limit int,
) (TreeView, error) {
	var tree TreeView
	q := SessionsQuery{}
	for {
		if limit > 0 {
			q.Limit = min(limit-len(tree.Sessions), MaxPage)
		}
		page, err := part(ctx, root, q)
		if err != nil {
			return TreeView{}, err
		}
		page.Sessions = append(tree.Sessions, page.Sessions...)
		tree = page
		if tree.Next == 0 || limit > 0 && len(tree.Sessions) >= limit {
			return tree, nil
		}
		q.After = tree.Next
	}
}

// Counts are the sizes of a tree.
type Counts struct {
	Sessions int    `json:"sessions"` // all ever made, the root included
	Live     int    `json:"live"`     // sessions in which something runs or waits, or that are reserved; the root never counts
	Errors   int    `json:"errors"`   // sessions and runs that failed
	Depth    int    `json:"depth"`    // deepest session
	Events   uint64 `json:"events"`   // length of the log
}

// Session is a session and, in a nested view, its children in spawn order.
type Session struct {
	lineage.Session
	Children []Session `json:"children,omitempty"`
}

// Flat wraps sessions one by one, without children.
func Flat(sessions []lineage.Session) []Session {
	flat := make([]Session, len(sessions))
	for i := range sessions {
		flat[i].Session = sessions[i]
	}
	return flat
}

// Nest hangs sessions, which are in spawn order, under their parents. One
// whose parent does not come before it stands at the top, so that none is
// lost and no loop can arise, whatever the parent links say.
func Nest(sessions []lineage.Session) []Session {
	at := make(map[string]int, len(sessions))
	children := make([][]int, len(sessions))
	var top []int
	for i := range sessions {
		if parent, ok := at[sessions[i].Parent]; ok {
			children[parent] = append(children[parent], i)
		} else {
			top = append(top, i)
		}
		at[sessions[i].ID] = i
	}
	var nest func(of []int) []Session
	nest = func(of []int) []Session {
		if len(of) == 0 {
			return nil
		}
		nested := make([]Session, len(of))
		for n, i := range of {
			nested[n] = Session{Session: sessions[i], Children: nest(children[i])}
		}
		return nested
	}
	return nest(top)
}

// Limits are caps as the API shows them; their names are those of the
// configuration. Zero means no cap.
type Limits struct {
	MaxDepth      int      `json:"maxDepth"`
	MaxChildren   int      `json:"maxChildren"`
	MaxFanOut     int      `json:"maxFanOut"`
	MaxSessions   int      `json:"maxSessions"`
	MaxVisits     int      `json:"maxVisits"`
	MaxConcurrent int      `json:"maxConcurrent"`
	QueueTimeout  Duration `json:"queueTimeout"`

	Agents map[string]Limits `json:"agents,omitempty"` // caps for calls to an agent that has its own
}

// LimitsOf returns l as the API shows it.
func LimitsOf(l lineage.Limits) Limits {
	return Limits{
		MaxDepth: l.MaxDepth, MaxChildren: l.MaxChildren, MaxFanOut: l.MaxFanOut,
		MaxSessions: l.MaxSessions, MaxVisits: l.MaxVisits, MaxConcurrent: l.MaxConcurrent,
		QueueTimeout: Duration(l.QueueTimeout),
	}
}

// Duration is a time span that JSON spells as the configuration does: "5m0s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	*d = Duration(span)
	return err
}

// EventsQuery selects events of one tree. As must be given; the zero value of
// every other field leaves it to the server.
type EventsQuery struct {
	As          string   // who looks: a session id, a branch label, or AsAll
	After       uint64   // events with a greater Seq
	Limit       int      // 1 to MaxPage; 0: DefaultPage
	LastN       int      // the last N that the other fields select; not together with After or Limit
	Types       []string // any of these; empty: all
	Session     string   // events of this session, by id or branch label; empty: of all
	AcrossTurns string   // AcrossTurnsFiltered or AcrossTurnsVisible; empty: as configured
}

// What a viewer sees of the events of other turns.
const (
	AcrossTurnsFiltered = "filtered" // what the rule for its own turn lets it see
	AcrossTurnsVisible  = "visible"  // everything
)

// EventPage is a page of a tree's log, oldest first.
type EventPage struct {
	Events []lineage.Event `json:"events"`
	// Next is the After of the next page: the number up to which the log has
	// been read. It stands on every page, the last one too, so that a reader
	// can come back for what is new.
	Next uint64 `json:"next"`
}

// Readiness is the body of /readyz.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // why not; or, of one that is ready, what it does without
}
