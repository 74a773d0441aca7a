package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// The shape of the load. Every conversation has more calls to make than places,
// so that its caps are reached all the time, and all of its calls go through all
// sidecars at once.
const (
	conversations = 4   // at a time
	abreast       = 12  // calls of one conversation at a time: more than maxChildren
	callsOfOne    = 150 // that a conversation makes before another takes its place
)

// load has conversations call until ctx ends, and returns when the last of
// their calls is over.
func (w *world) load(ctx context.Context, r *rand.Rand) {
	var talks sync.WaitGroup
	for i := range conversations {
		r := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		talks.Go(func() {
			for ctx.Err() == nil {
				w.converse(ctx, r)
			}
		})
	}
	talks.Wait()
}

// converse is one conversation.
func (w *world) converse(ctx context.Context, r *rand.Rand) {
	root := uuid.NewString()
	jobs := make(chan job)
	var callers sync.WaitGroup
	for range abreast {
		callers.Go(func() {
			for j := range jobs {
				// A call that has begun is seen to its end, whatever ends the load.
				w.coordinator.call(context.WithoutCancel(ctx), root, root, "user of "+root, j)
			}
		})
	}
	for n := 0; n < callsOfOne && ctx.Err() == nil; n++ {
		select {
		case jobs <- anyJob(r):
		case <-ctx.Done():
		}
	}
	close(jobs)
	callers.Wait()
}

// burst fills the caps to the brim, one above the other, and empties them again:
// places that the chaos has left taken would show. Findings are what is wrong.
func (w *world) burst(ctx context.Context) (findings []string) {
	for _, b := range []struct {
		agent  string
		most   int
		reason string
		roots  bool // each call in a conversation of its own
	}{
		{agentScarce, maxConcurrent, "CONCURRENCY_LIMIT", true},
		{agentWorker, maxChildren, "CHILDREN_LIMIT", false},
	} {
		root := uuid.NewString()
		next := func() string {
			if b.roots {
				root = uuid.NewString()
			}
			return root
		}
		held := make(chan outcome, b.most)
		for range b.most {
			root := next()
			go func() {
				held <- w.coordinator.call(ctx, root, root, "user of "+root, job{Agent: b.agent, Way: send, Hold: true})
			}()
		}
		if n := w.awaitWork(ctx, b.agent, b.most); n != b.most {
			findings = append(findings, fmt.Sprintf("a burst of %d calls to %s: %d were admitted: places are taken that nobody holds", b.most, b.agent, n))
		}
		root1 := next()
		if o := w.coordinator.call(ctx, root1, root1, "user of "+root1, job{Agent: b.agent, Way: send}); o.result != refused || o.reason != b.reason {
			findings = append(findings, fmt.Sprintf("one call more than %d to %s: %s %s, want %s %s", b.most, b.agent, o.result, o.reason, refused, b.reason))
		}
		w.gate.open()
		for range b.most {
			if o := <-held; o.result != answered {
				findings = append(findings, fmt.Sprintf("a call of the burst to %s: %s %s", b.agent, o.result, o.reason))
			}
		}
		root1 = next()
		if o := w.coordinator.call(ctx, root1, root1, "user of "+root1, job{Agent: b.agent, Way: send}); o.result != answered {
			findings = append(findings, fmt.Sprintf("a call to %s after the burst: %s %s", b.agent, o.result, o.reason))
		}
	}
	return findings
}

// awaitWork waits until n messages are at work at an agent, or for a while, and
// returns how many there are.
func (w *world) awaitWork(ctx context.Context, agent string, n int) int {
	const most = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := w.ledger.await()
		if at := w.ledger.at(agent); at >= n || ctx.Err() != nil {
			return at
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
