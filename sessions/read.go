package sessions

import (
	"context"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Reader returns the store's reader, but that each read comes after what this
// sidecar has seen by then: who hears a call's answer and looks finds its end.
func (r *Record) Reader() Reader { return reader{r.opts.Store, r.writer} }

type reader struct {
	store  Reader
	writer *writer
}

func (r reader) Trees(ctx context.Context, q TreeQuery) (TreePage, error) {
	if err := r.writer.sync(ctx); err != nil {
		return TreePage{}, err
	}
	return r.store.Trees(ctx, q)
}

func (r reader) Tree(ctx context.Context, root string) (lineage.Tree, error) {
	if err := r.writer.sync(ctx); err != nil {
		return lineage.Tree{}, err
	}
	return r.store.Tree(ctx, root)
}

func (r reader) Sessions(ctx context.Context, root string, q SessionQuery) (SessionPage, error) {
	if err := r.writer.sync(ctx); err != nil {
		return SessionPage{}, err
	}
	return r.store.Sessions(ctx, root, q)
}

func (r reader) SessionOf(ctx context.Context, root string, key BindingKey) (lineage.Session, error) {
	if err := r.writer.sync(ctx); err != nil {
		return lineage.Session{}, err
	}
	return r.store.SessionOf(ctx, root, key)
}

func (r reader) Session(ctx context.Context, id string) (lineage.Session, error) {
	if err := r.writer.sync(ctx); err != nil {
		return lineage.Session{}, err
	}
	return r.store.Session(ctx, id)
}

func (r reader) Events(ctx context.Context, root string, q EventQuery) (EventPage, error) {
	if err := r.writer.sync(ctx); err != nil {
		return EventPage{}, err
	}
	return r.store.Events(ctx, root, q)
}
