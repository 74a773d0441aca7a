package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const (
	linearCap     = 4 // places under the one parent
	linearWorkers = 8 // clients at the same time
	linearEach    = 7 // what each of them does: 56 in all, of which a set fits a word
	linearRounds  = 6
	linearTime    = 30 * time.Second // to find an order in one history
)

// Linearizable lets many clients take places under one parent, give them back,
// and look how many are taken, all at the same time and through several
// handles on the same store (or one). What they were told must be what they
// could have been told one after the other, each at some moment between asking
// and being told: as if there were one store with one lock.
func Linearizable(t *testing.T, stores ...sessions.Store) {
	t.Helper()
	refused := 0
	for round := range linearRounds {
		history, err := record(t.Context(), stores, fmt.Sprintf("linear-%d", round))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, op := range history {
			if op.Input.(act).what == "take" && !op.Output.(answer).ok {
				refused++
			}
		}
		switch porcupine.CheckOperationsTimeout(places, history, linearTime) {
		case porcupine.Ok:
		case porcupine.Illegal:
			t.Fatalf("round %d: this could not have been one after the other, under a cap of %d:\n%s", round, linearCap, spellHistory(history))
		case porcupine.Unknown:
			t.Logf("round %d: no order was found, nor was there none, within %s", round, linearTime)
		}
	}
	if refused == 0 {
		t.Errorf("in %d rounds nobody was refused: the clients never met the cap", linearRounds)
	}
}

// act is what a client asks for.
type act struct {
	what string // take, give or look
	id   int    // of the place
}

// answer is what it was told.
type answer struct {
	ok   bool // take: there was a place
	live int  // look
}

// places is a parent that has linearCap places, as one would write it for one
// client. Its state is the set of places taken.
var places = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		taken, in, out := state.(uint64), input.(act), output.(answer)
		switch in.what {
		case "take":
			if free := bits.OnesCount64(taken) < linearCap; out.ok != free {
				return false, taken
			}
			if out.ok {
				taken |= 1 << in.id
			}
			return true, taken
		case "give":
			return taken&(1<<in.id) != 0, taken &^ (1 << in.id)
		default:
			return out.live == bits.OnesCount64(taken), taken
		}
	},
}

// record lets the clients loose on a tree and returns what they did and heard.
func record(ctx context.Context, stores []sessions.Store, root string) ([]porcupine.Operation, error) {
	var mu sync.Mutex // guards history and faults
	var history []porcupine.Operation
	var faults []error
	begin := time.Now()
	ready := make(chan struct{})
	var done sync.WaitGroup
	first := &client{store: stores[0], root: root}
	if err := first.plant(ctx); err != nil {
		return nil, err
	}
	for worker := range linearWorkers {
		c := &client{store: stores[worker%len(stores)], root: root}
		done.Go(func() {
			<-ready
			for i := range linearEach {
				op := porcupine.Operation{ClientId: worker, Call: int64(time.Since(begin))}
				in, out, err := c.act(ctx, worker, i)
				op.Input, op.Output, op.Return = in, out, int64(time.Since(begin))
				mu.Lock()
				history, faults = append(history, op), append(faults, err)
				mu.Unlock()
			}
		})
	}
	close(ready)
	done.Wait()
	return history, errors.Join(faults...)
}

// client takes places and gives back those that it has.
type client struct {
	store sessions.Store
	root  string
	held  []act
}

// plant makes the tree, so that the parent is there.
func (c *client) plant(ctx context.Context) error {
	op := &sessions.Op{Admit: c.admission(0)}
	op.Admit.SessionID, op.Admit.RunID, op.Admit.MessageID, op.Admit.ContextID = c.root+"-s", c.root+"-r", c.root+"-m", c.root+"-c"
	c.store.Apply(ctx, []*sessions.Op{op})
	if op.Err != nil {
		return op.Err
	}
	return c.end(ctx, op.Grant.Session.ID, op.Grant.RunID)
}

func (c *client) admission(id int) *sessions.Admission {
	return &sessions.Admission{
		Root: c.root, Principal: alice, Local: "coordinator", MainID: c.root + "-main",
		Agent: "a", Kind: lineage.Branch, Isolated: true, Inherit: lineage.InheritFull,
		SessionID: fmt.Sprintf("%s-s%d", c.root, id), RunID: fmt.Sprintf("%s-r%d", c.root, id),
		MessageID: fmt.Sprintf("%s-m%d", c.root, id), ContextID: fmt.Sprintf("%s-c%d", c.root, id),
		Limits: lineage.Limits{MaxChildren: linearCap}, Owner: "linear", Lease: time.Hour,
	}
}

// act does the i-th thing of a worker: it looks now and then, and else gives
// back what it has, or takes a place.
func (c *client) act(ctx context.Context, worker, i int) (act, answer, error) {
	id := worker*linearEach + i
	switch {
	case i == linearEach/2:
		t, err := c.store.Tree(ctx, c.root)
		return act{what: "look"}, answer{live: t.Live}, err
	case len(c.held) > 0 && (id%3 != 0 || len(c.held) > 1):
		place := c.held[0]
		c.held = c.held[1:]
		return act{"give", place.id}, answer{}, c.give(ctx, place.id)
	default:
		in := act{"take", id}
		ok, err := c.take(ctx, id)
		if ok {
			c.held = append(c.held, in)
		}
		return in, answer{ok: ok}, err
	}
}

// take asks for a place: with a call, or ahead of one.
func (c *client) take(ctx context.Context, id int) (bool, error) {
	a := c.admission(id)
	a.Ahead = id%2 == 0
	op := &sessions.Op{Admit: a}
	c.store.Apply(ctx, []*sessions.Op{op})
	if refusal, ok := errors.AsType[*lineage.Refusal](op.Err); ok && refusal.Reason == lineage.ChildrenLimit {
		return false, nil
	}
	return op.Err == nil, op.Err
}

func (c *client) give(ctx context.Context, id int) error {
	session, run := fmt.Sprintf("%s-s%d", c.root, id), fmt.Sprintf("%s-r%d", c.root, id)
	if id%2 != 0 {
		return c.end(ctx, session, run)
	}
	op := &sessions.Op{Change: &sessions.Change{Root: c.root, Session: session, Verb: lineage.VerbCancel}}
	c.store.Apply(ctx, []*sessions.Op{op})
	return op.Err
}

func (c *client) end(ctx context.Context, session, run string) error {
	op := &sessions.Op{Progress: &sessions.Progress{Root: c.root, Session: session, Run: run, Gen: 1, Agent: "a", State: lineage.Completed}}
	c.store.Apply(ctx, []*sessions.Op{op})
	return op.Err
}

// spellHistory is a history in the order in which its acts were asked for.
func spellHistory(history []porcupine.Operation) string {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range history {
		fmt.Fprintf(&b, "%8dµs to %8dµs  client %d  %+v: %+v\n",
			time.Duration(op.Call).Microseconds(), time.Duration(op.Return).Microseconds(), op.ClientId, op.Input, op.Output)
	}
	return b.String()
}
