package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// eventChunk is how many events are read in one flight where some are left out.
const eventChunk = 1000

// Events returns a page of a tree's log, oldest first. Events that the query
// leaves out are read over, chunk by chunk, until the page is full.
func (s *Store) Events(ctx context.Context, root string, q sessions.EventQuery) (sessions.EventPage, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	l := logOf{store: s, root: root, key: s.keys.tree(root)[keyLog]}
	// The seq of the last event tells whether there is a tree, and where an
	// unbounded read ends while others append.
	end, err := l.end(ctx)
	if err != nil {
		return sessions.EventPage{}, err
	}
	if q.LastN > 0 {
		return l.last(ctx, &q, end)
	}
	return l.page(ctx, &q)
}

// logOf reads one tree's log.
type logOf struct {
	store *Store
	root  string
	key   string
}

func (l *logOf) fault(err error) error { return fault("reading the log of tree "+l.root, err) }

func (l *logOf) end(ctx context.Context) (uint64, error) {
	newest, err := l.store.client.XRevRangeN(ctx, l.key, "+", "-", 1).Result()
	if err != nil {
		return 0, l.fault(err)
	}
	if len(newest) == 0 {
		return 0, l.fault(goredis.Nil)
	}
	e, err := event(newest[0])
	return e.Seq, l.fault(err)
}

// page reads forward from q.After.
func (l *logOf) page(ctx context.Context, q *sessions.EventQuery) (sessions.EventPage, error) {
	limit := pageSize(q.Limit)
	chunk := eventChunk
	if q.All && q.Session == "" && len(q.Types) == 0 {
		chunk = limit // nothing is left out
	}
	page := sessions.EventPage{Next: q.After}
	for {
		read, err := l.store.client.XRangeN(ctx, l.key, "("+entry(page.Next), "+", int64(chunk)).Result()
		if err != nil {
			return sessions.EventPage{}, l.fault(err)
		}
		for _, m := range read {
			e, err := event(m)
			if err != nil {
				return sessions.EventPage{}, l.fault(err)
			}
			page.Next = e.Seq
			if q.Selects(&e) {
				page.Events = append(page.Events, e)
			}
			if len(page.Events) == limit {
				return page, nil
			}
		}
		if len(read) < chunk {
			return page, nil
		}
	}
}

// last reads backward from the end until it has the last N that q selects.
func (l *logOf) last(ctx context.Context, q *sessions.EventQuery, end uint64) (sessions.EventPage, error) {
	page := sessions.EventPage{Next: max(end, q.After)}
	for from := end + 1; ; {
		read, err := l.store.client.XRevRangeN(ctx, l.key, "("+entry(from), "("+entry(q.After), int64(min(eventChunk, 2*q.LastN))).Result()
		if err != nil {
			return sessions.EventPage{}, l.fault(err)
		}
		for _, m := range read {
			e, err := event(m)
			if err != nil {
				return sessions.EventPage{}, l.fault(err)
			}
			from = e.Seq
			if q.Selects(&e) {
				page.Events = append(page.Events, e)
			}
			if len(page.Events) == q.LastN {
				slices.Reverse(page.Events)
				return page, nil
			}
		}
		if len(read) == 0 {
			slices.Reverse(page.Events)
			return page, nil
		}
	}
}

// entry spells the id of the stream's entry for an event.
func entry(seq uint64) string { return strconv.FormatUint(seq, 10) + "-1" }

// event reads an entry of the log.
func event(m goredis.XMessage) (lineage.Event, error) {
	text := func(name string) string {
		s, _ := m.Values[name].(string) // every value of a stream is a string
		return s
	}
	id, _, _ := strings.Cut(m.ID, "-")
	seq, err1 := strconv.ParseUint(id, 10, 64)
	at, err2 := strconv.ParseInt(text("at"), 10, 64)
	if err1 != nil || err2 != nil {
		return lineage.Event{}, fmt.Errorf("entry %s: %w", m.ID, errDamaged)
	}
	return lineage.Event{
		Seq: seq, ID: text("id"), Time: fromMicros(at), Type: text("type"), Session: text("session"),
		Branch: text("branch"), Tokens: lineage.ParseTokens(text("tokens")), Turn: text("turn"),
		TraceID: text("trace"), Payload: json.RawMessage(text("payload")),
	}, nil
}
