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

// Events are read in chunks: few where all are wanted, more and more where the
// query leaves some out.
const (
	firstChunk = 100
	lastChunk  = sessions.MaxPage
)

// Events returns a page of a tree's log, oldest first. Events that the query
// leaves out are read over until the page is full.
func (s *Store) Events(ctx context.Context, root string, q sessions.EventQuery) (sessions.EventPage, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	l := logOf{store: s, root: root, q: &q}
	read := l.page
	if q.LastN > 0 {
		read = l.last
	}
	page, err := read(ctx)
	if err != nil {
		return sessions.EventPage{}, fault("reading the log of tree "+root, err)
	}
	return page, nil
}

// logOf reads one tree's log. Its errors are go-redis's.
type logOf struct {
	store *Store
	root  string
	q     *sessions.EventQuery
}

func (l *logOf) key() string { return l.store.keys.tree(l.root)[keyLog] }

// chunk is how many events to read to find n.
func (l *logOf) chunk(n int) int {
	if l.q.All && l.q.Session == "" && len(l.q.Types) == 0 {
		return min(n, lastChunk)
	}
	return min(max(n, firstChunk), lastChunk)
}

// page reads forward from After.
func (l *logOf) page(ctx context.Context) (sessions.EventPage, error) {
	limit := pageSize(l.q.Limit)
	page := sessions.EventPage{Next: l.q.After}
	for chunk := l.chunk(limit); ; chunk = min(2*chunk, lastChunk) {
		read, err := l.store.client.XRangeN(ctx, l.key(), "("+entry(page.Next), "+", int64(chunk)).Result()
		if err != nil {
			return page, err
		}
		for _, m := range read {
			e, err := event(m)
			if err != nil {
				return page, err
			}
			page.Next = e.Seq
			if l.q.Selects(&e) {
				page.Events = append(page.Events, e)
			}
			if len(page.Events) == limit {
				return page, nil
			}
		}
		if len(read) < chunk {
			return page, l.there(ctx, page.Next)
		}
	}
}

// last reads backward from the end until it has the last N.
func (l *logOf) last(ctx context.Context) (sessions.EventPage, error) {
	page := sessions.EventPage{Next: l.q.After}
	from := "+"
	for chunk := l.chunk(l.q.LastN); ; chunk = min(2*chunk, lastChunk) {
		read, err := l.store.client.XRevRangeN(ctx, l.key(), from, "("+entry(l.q.After), int64(chunk)).Result()
		if err != nil {
			return page, err
		}
		for _, m := range read {
			e, err := event(m)
			if err != nil {
				return page, err
			}
			from = "(" + entry(e.Seq)
			page.Next = max(page.Next, e.Seq)
			if l.q.Selects(&e) {
				page.Events = append(page.Events, e)
			}
			if len(page.Events) == l.q.LastN {
				break
			}
		}
		if len(page.Events) == l.q.LastN || len(read) < chunk {
			slices.Reverse(page.Events)
			return page, l.there(ctx, page.Next)
		}
	}
}

// there returns goredis.Nil if there is no such tree, which is not in doubt
// when an event was seen.
func (l *logOf) there(ctx context.Context, seen uint64) error {
	if seen > l.q.After {
		return nil
	}
	n, err := l.store.client.Exists(ctx, l.key()).Result()
	if err == nil && n == 0 {
		err = goredis.Nil
	}
	return err
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
