package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Find returns what an id at an agent belongs to.
func (s *Store) Find(ctx context.Context, key sessions.BindingKey) (sessions.Binding, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	doing := fmt.Sprintf("finding %s %s of agent %s", key.Kind, key.ID, key.Agent)
	raw, err := s.client.Get(ctx, s.keys.binding(key)).Result()
	if err != nil {
		return sessions.Binding{}, fault(doing, err)
	}
	return binding(doing, raw)
}

// Claim makes key belong to b unless it belongs to something already.
func (s *Store) Claim(ctx context.Context, key sessions.BindingKey, b sessions.Binding) (sessions.Binding, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	doing := fmt.Sprintf("claiming %s %s of agent %s", key.Kind, key.ID, key.Agent)
	f := s.flight()
	c := s.claim(ctx, f, key, b)
	f.send(ctx)
	raw, err := c.Text()
	if err != nil {
		return sessions.Binding{}, fault(doing, err)
	}
	return binding(doing, raw)
}

func (s *Store) claim(ctx context.Context, f *flight, key sessions.BindingKey, b sessions.Binding) *call {
	return f.call(ctx, claimScript, []string{s.keys.binding(key)}, []any{pack(b.Root, b.Principal), millis(s.abroad())})
}

// Unclaim takes back a claim of b, unless b's tree has a session under it. The
// tree is in another slot, so it is asked again afterwards: if it has learnt
// the id meanwhile, the claim is made again.
func (s *Store) Unclaim(ctx context.Context, key sessions.BindingKey, b sessions.Binding) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	doing := fmt.Sprintf("taking back the claim of %s %s of agent %s", key.Kind, key.ID, key.Agent)
	used := func() (bool, error) {
		found, err := s.client.HExists(ctx, s.keys.tree(b.Root)[keyState], idsField(key)).Result()
		return found, fault(doing, err)
	}
	if found, err := used(); err != nil || found {
		return err
	}
	f := s.flight()
	c := f.call(ctx, unclaimScript, []string{s.keys.binding(key)}, []any{pack(b.Root, b.Principal)})
	f.send(ctx)
	if err := c.Err(); err != nil {
		return fault(doing, err)
	}
	s.bound.forget(s.keys.binding(key))
	found, err := used()
	if err == nil && found {
		_, err = s.Claim(ctx, key, b)
	}
	return err
}

func binding(doing, raw string) (sessions.Binding, error) {
	p := unpack(raw)
	b := sessions.Binding{Root: p.str(), Principal: p.str()}
	if p.err != nil {
		return sessions.Binding{}, fmt.Errorf("%s: %w", doing, p.err)
	}
	return b, nil
}

// abroad is the TTL of a tree's keys in other slots. They are prolonged four
// times in a tree's retention (flush.lua), so they outlive it.
func (s *Store) abroad() time.Duration { return s.retain + s.retain/4 }

// bind makes the ids that a tree has learnt belong to it.
func (b *batch) bind(st *step, r *reply) {
	s := b.store
	of := sessions.Binding{Root: st.root, Principal: r.principal}
	for _, l := range r.bindings {
		key := l.key
		name := s.keys.binding(key)
		value := pack(of.Root, of.Principal)
		st.used = append(st.used, early{key: name, value: value})
		// What the tree has just learnt is written even if it was before: the
		// server may have lost it, and the tree with it.
		if st.foreseen(name, value) || !l.new && !s.unwritten.has(name, st.root) {
			continue
		}
		s.unwritten.add(name, st.root)
		done := func() {
			s.unwritten.forget(name)
			s.bound.add(name, st.root)
		}
		b.owe(st.op, done, func(ctx context.Context, f *flight) outcome { return s.claim(ctx, f, key, of) })
	}
}

// upkeep notes what a tree's TTLs need abroad.
func (b *batch) upkeep(op *sessions.Op, root string, r *reply) {
	if strings.Contains(r.upkeep, "f") {
		b.enlist(op, root, r)
	}
	if strings.Contains(r.upkeep, "b") {
		if b.unkept == nil {
			b.unkept = map[string]string{}
		}
		b.unkept[root] = r.principal
	}
}

// prolongBatch is how many ids are prolonged in one flight.
const prolongBatch = 1000

// prolong gives the ids that belong to a tree their full TTL again, and writes
// those that a crash has left out. Then the tree notes that it was done.
func (s *Store) prolong(ctx context.Context, root, principal string) error {
	keys := s.keys.tree(root)
	of := sessions.Binding{Root: root, Principal: principal}
	f := s.flight()
	send := func(most int) error {
		if f.pipe.Len() < most || f.pipe.Len() == 0 {
			return nil
		}
		f.send(ctx)
		for _, c := range f.calls {
			if err := c.Err(); err != nil {
				return fault("prolonging the ids of tree "+root, err)
			}
		}
		f = s.flight()
		return nil
	}

	ids := s.client.HScan(ctx, keys[keyState], 0, "[ct]*", prolongBatch).Iterator()
	for ids.Next(ctx) {
		if key, ok := idsKey(ids.Val()); ok {
			s.claim(ctx, f, key, of)
		}
		ids.Next(ctx) // the value
		if err := send(prolongBatch); err != nil {
			return err
		}
	}
	if err := ids.Err(); err != nil {
		return fault("reading the ids of tree "+root, err)
	}
	for from := 1; ; from += prolongBatch {
		made, err := s.spawned(ctx, root, from, prolongBatch)
		if err != nil {
			return err
		}
		for _, id := range made {
			f.call(ctx, claimScript, []string{s.keys.session(id)}, []any{root, millis(s.abroad())})
		}
		if err := send(prolongBatch); err != nil {
			return err
		}
		if len(made) < prolongBatch {
			break
		}
	}
	if err := send(0); err != nil {
		return err
	}
	c := f.call(ctx, boundScript, keys[:1], []any{s.clock()})
	f.send(ctx)
	return fault("noting the upkeep of tree "+root, c.Err())
}

// spawned returns ids of sessions of a tree, in spawn order from the nth on.
func (s *Store) spawned(ctx context.Context, root string, n, most int) ([]string, error) {
	fields := make([]string, most)
	for i := range fields {
		fields[i] = "#" + strconv.Itoa(n+i)
	}
	rows, err := s.client.HMGet(ctx, s.keys.tree(root)[keyState], fields...).Result()
	if err != nil {
		return nil, fault("reading the sessions of tree "+root, err)
	}
	var made []string
	for _, row := range rows {
		raw, ok := row.(string)
		if !ok {
			break
		}
		record := values(raw)
		made = append(made, record.str())
		if record.err != nil {
			return nil, fmt.Errorf("reading the sessions of tree %s: %w", root, record.err)
		}
	}
	return made, nil
}

// rememberedIDs is how many ids a store remembers: about 2 MB.
const rememberedIDs = 16384

// remembered is a bounded set of bindings, each a key and the root of its
// tree (or of other names, with an empty root). It is safe for concurrent use.
type remembered struct{ cache *lru.Cache[string, string] }

func newRemembered() (*remembered, error) {
	cache, err := lru.New[string, string](rememberedIDs)
	if err != nil {
		return nil, fmt.Errorf("making a cache of ids: %w", err)
	}
	return &remembered{cache: cache}, nil
}

func (r *remembered) has(key, root string) bool {
	of, ok := r.cache.Get(key)
	return ok && of == root
}

func (r *remembered) add(key, root string) { r.cache.Add(key, root) }

func (r *remembered) forget(key string) { r.cache.Remove(key) }
