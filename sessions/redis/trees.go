package redis

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Bounds of a page of trees.
const (
	treeChunk   = 200  // roots read in one flight
	treesLooked = 5000 // roots looked at before a page is handed out as it is
)

// Trees lists trees, newest first. A page that finds too little among many
// trees ends early, with a Next to go on from.
func (s *Store) Trees(ctx context.Context, q sessions.TreeQuery) (sessions.TreePage, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	limit := pageSize(q.Limit)
	last, err := parseCursor(q.Cursor)
	if err != nil {
		return sessions.TreePage{}, err
	}
	at, err := s.rank(ctx, last)
	if err != nil {
		return sessions.TreePage{}, err
	}
	var page sessions.TreePage
	var end cursor // the last tree of the page, then the last that was looked at
	chunk := int64(treeChunk)
	if q.State == "" && q.Agent == "" && q.Text == "" {
		chunk = int64(min(limit+1, treeChunk))
	}
	for looked := 0; looked < treesLooked; {
		roots, err := s.client.ZRevRangeWithScores(ctx, s.keys.trees(), at, at+chunk-1).Result()
		if err != nil {
			return sessions.TreePage{}, fault("reading the list of trees", err)
		}
		at += int64(len(roots))
		looked += len(roots)
		trees, err := s.summaries(ctx, slices.DeleteFunc(slices.Clone(roots), func(z goredis.Z) bool {
			return !strings.Contains(z.Member.(string), q.Text) || last.before(z)
		}))
		if err != nil {
			return sessions.TreePage{}, err
		}
		for _, t := range trees {
			if q.State != "" && t.State != q.State || q.Agent != "" && !slices.Contains(t.Agents, q.Agent) {
				continue
			}
			if len(page.Trees) == limit {
				page.Next = end.String()
				return page, nil
			}
			page.Trees = append(page.Trees, t)
			end = cursor{at: t.StartedAt.UnixMicro(), root: t.Root, set: true}
		}
		if int64(len(roots)) < chunk {
			return page, nil
		}
		if len(page.Trees) < limit {
			oldest := roots[len(roots)-1]
			end = cursor{at: int64(oldest.Score), root: oldest.Member.(string), set: true}
		}
	}
	page.Next = end.String()
	return page, nil
}

// summaries reads the trees of a piece of the list. Those that are kept no
// longer are taken off it.
func (s *Store) summaries(ctx context.Context, listed []goredis.Z) ([]lineage.Tree, error) {
	if len(listed) == 0 {
		return nil, nil
	}
	pipe := s.client.Pipeline()
	metas := make([]*goredis.SliceCmd, len(listed))
	for i, z := range listed {
		metas[i] = pipe.HMGet(ctx, s.keys.tree(z.Member.(string))[keyState], summaryFields...)
	}
	_, _ = pipe.Exec(ctx) // each is looked at below
	var trees []lineage.Tree
	gone := s.flight()
	for i, z := range listed {
		root := z.Member.(string)
		t, err := summary(root, metas[i])
		switch {
		case errors.Is(err, sessions.ErrNotFound):
			gone.call(ctx, forgetScript, []string{s.keys.trees()}, []any{root, strconv.FormatInt(int64(z.Score), 10)})
		case err != nil:
			return nil, err
		default:
			trees = append(trees, t)
		}
	}
	gone.send(ctx)
	for _, c := range gone.calls {
		if err := c.Err(); err != nil {
			return nil, fault("tidying the list of trees", err)
		}
	}
	return trees, nil
}

// Tree returns one tree.
func (s *Store) Tree(ctx context.Context, root string) (lineage.Tree, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	return summary(root, s.client.HMGet(ctx, s.keys.tree(root)[keyState], summaryFields...))
}

// summaryFields are the fields of the state that make a summary, in the order in
// which it reads them.
var summaryFields = []string{"n", "v", "agents"}

func summary(root string, meta *goredis.SliceCmd) (lineage.Tree, error) {
	doing := "reading tree " + root
	found, err := meta.Result()
	if err != nil {
		return lineage.Tree{}, fault(doing, err)
	}
	var texts [3]string
	for i, v := range found {
		s, ok := v.(string)
		if !ok {
			return lineage.Tree{}, fault(doing, goredis.Nil)
		}
		texts[i] = s
	}
	n, v, agents := values(texts[0]), values(texts[1]), values(texts[2])
	t := lineage.Tree{Root: root, State: lineage.TreeIdle, Agents: agents.strings()}
	t.StartedAt = n.time()
	n.str() // principal
	t.CatchAll = n.str() == "1"
	v.skip(1) // seq
	t.LastEventAt = v.time()
	v.skip(1) // token
	t.Sessions, t.Live, t.Depth, t.Errors = int(v.num()), int(v.num()), int(v.num()), int(v.num())
	if err := errors.Join(n.err, v.err, agents.err); err != nil {
		return lineage.Tree{}, fmt.Errorf("%s: %w", doing, err)
	}
	slices.Sort(t.Agents)
	if t.Live > 0 {
		t.State = lineage.TreeActive
	}
	return t, nil
}

// cursor is a place in the list of trees: after this one.
type cursor struct {
	at   int64
	root string
	set  bool
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.at, 10) + " " + c.root))
}

func parseCursor(spelled string) (cursor, error) {
	if spelled == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(spelled)
	if err != nil {
		return cursor{}, fmt.Errorf("reading the cursor %q: %w", spelled, sessions.ErrBadCursor)
	}
	at, root, ok := strings.Cut(string(raw), " ")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return cursor{}, fmt.Errorf("reading the cursor %q: %w", spelled, sessions.ErrBadCursor)
	}
	return cursor{at: n, root: root, set: true}, nil
}

// before reports whether z is one that a page that starts after c leaves out.
func (c cursor) before(z goredis.Z) bool {
	at := int64(z.Score)
	return c.set && (at > c.at || at == c.at && z.Member.(string) >= c.root)
}

// rank returns where in the list a page begins. The tree that the cursor names
// may be gone by now.
func (s *Store) rank(ctx context.Context, c cursor) (int64, error) {
	if !c.set {
		return 0, nil
	}
	pipe := s.client.Pipeline()
	rank := pipe.ZRevRank(ctx, s.keys.trees(), c.root)
	newer := pipe.ZCount(ctx, s.keys.trees(), "("+strconv.FormatInt(c.at, 10), "+inf")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) {
		return 0, fault("finding the cursor's place", err)
	}
	// Where the tree of the cursor stands, unless it is gone, or made anew and
	// stands among the newer ones.
	return max(rank.Val(), newer.Val()), nil
}

func pageSize(limit int) int {
	if limit <= 0 {
		limit = sessions.DefaultPage
	}
	return min(limit, sessions.MaxPage)
}
