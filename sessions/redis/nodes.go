package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Sessions returns the sessions of a tree with their runs, in spawn order.
func (s *Store) Sessions(ctx context.Context, root string) ([]lineage.Session, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	doing := "reading the sessions of tree " + root
	keys := s.keys.tree(root)
	var nodes, runs *goredis.MapStringStringCmd
	// One transaction: a session never shows without its run.
	_, err := s.client.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		nodes, runs = pipe.HGetAll(ctx, keys[keyNodes]), pipe.HGetAll(ctx, keys[keyRuns])
		return nil
	})
	if err != nil {
		return nil, fault(doing, err)
	}
	if len(nodes.Val()) == 0 {
		return nil, fault(doing, goredis.Nil)
	}
	all, err := assemble(root, nodes.Val(), runs.Val())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return all, nil
}

// Session returns one session with its runs.
func (s *Store) Session(ctx context.Context, id string) (lineage.Session, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	doing := "reading session " + id
	root, err := s.client.Get(ctx, s.keys.session(id)).Result()
	if err != nil {
		return lineage.Session{}, fault(doing, err)
	}
	keys := s.keys.tree(root)
	fields := []string{"n:" + id, "v:" + id, "r:" + id, "u:" + id}
	var node *goredis.SliceCmd
	var runs *goredis.MapStringStringCmd
	_, err = s.client.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		node, runs = pipe.HMGet(ctx, keys[keyNodes], fields...), pipe.HGetAll(ctx, keys[keyRuns])
		return nil
	})
	if err != nil {
		return lineage.Session{}, fault(doing, err)
	}
	found := map[string]string{}
	for i, v := range node.Val() {
		if text, ok := v.(string); ok {
			found[fields[i]] = text
		}
	}
	if len(found) == 0 {
		return lineage.Session{}, fault(doing, goredis.Nil)
	}
	all, err := assemble(root, found, runs.Val())
	if err != nil {
		return lineage.Session{}, fmt.Errorf("%s: %w", doing, err)
	}
	return all[0], nil
}

// assemble makes sessions of the fields of the nodes hash and of the runs, of
// which those of other sessions are left out.
func assemble(root string, nodes, runs map[string]string) ([]lineage.Session, error) {
	type placed[T any] struct {
		at int64
		of T
	}
	var found []placed[lineage.Session]
	for name, static := range nodes {
		id, ok := strings.CutPrefix(name, "n:")
		if !ok {
			continue
		}
		node, at, err := session(root, id, static, nodes["v:"+id], nodes["r:"+id], nodes["u:"+id])
		if err != nil {
			return nil, err
		}
		found = append(found, placed[lineage.Session]{at, node})
	}
	slices.SortFunc(found, func(a, b placed[lineage.Session]) int { return cmp.Compare(a.at, b.at) })

	in := map[string][]placed[lineage.Run]{}
	for id, raw := range runs {
		r, of, at, err := run(id, raw)
		if err != nil {
			return nil, err
		}
		in[of] = append(in[of], placed[lineage.Run]{at, r})
	}
	all := make([]lineage.Session, len(found))
	for i, f := range found {
		all[i] = f.of
		of := in[f.of.ID]
		slices.SortFunc(of, func(a, b placed[lineage.Run]) int { return cmp.Compare(a.at, b.at) })
		for _, r := range of {
			all[i].Runs = append(all[i].Runs, r.of)
		}
	}
	return all, nil
}
