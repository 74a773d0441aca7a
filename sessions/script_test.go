package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The tests of the writer and of the lines stand inside the package, and so
// cannot use the model store: it would be an import cycle.

// script is a store that does as it is told. Of its methods only Apply and
// Ping may be called.
type script struct {
	Store

	mu      sync.Mutex
	down    bool            // every op fails
	broken  map[string]bool // ops of these names fail
	full    bool            // admissions are refused
	hold    chan struct{}   // Apply waits for it; nil: it does not
	batches [][]string      // names of the ops of each Apply
	pings   int
}

func (s *script) Apply(ctx context.Context, ops []*Op) {
	var names []string
	for _, op := range ops {
		names = append(names, nameOf(op))
	}
	s.mu.Lock()
	s.batches = append(s.batches, names)
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		switch {
		case s.down || ctx.Err() != nil || s.broken[nameOf(op)]:
			op.Err = fmt.Errorf("applying: %w", ErrUnavailable)
		case op.Admit != nil && s.full:
			op.Err = &lineage.Refusal{Reason: lineage.FanOutLimit}
		case op.Admit != nil:
			op.Grant, op.Err = Grant{RunID: op.Admit.RunID}, nil
		default:
			op.Err = nil
		}
	}
}

func (s *script) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings++
	if s.down {
		return errors.New("no answer")
	}
	return nil
}

func nameOf(op *Op) string {
	if op.Admit != nil {
		return op.Admit.RunID
	}
	return op.Progress.Run
}

func (s *script) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// asked returns the names of all ops so far, batch by batch, and forgets them.
func (s *script) asked() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	batches := s.batches
	s.batches = nil
	return batches
}

const scriptTimeout = 2 * time.Second

// bench is a writer over a script, and what it told.
type bench struct {
	*writer
	script *script
	ctx    context.Context

	mu      sync.Mutex
	calm    bool // nobody waits in line
	applied []string
	lost    []int
}

func (b *bench) isPatient() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calm
}

func (b *bench) setCalm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm = true
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{script: &script{}, ctx: context.Background()}
	b.writer = newWriter(b.script, scriptTimeout, b.isPatient, func(ops []*Op) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, op := range ops {
			if op.Err == nil {
				b.applied = append(b.applied, nameOf(op))
			}
		}
	}, func(n int, err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("dropped(%d, %v), want an ErrUnavailable", n, err)
		}
		b.lost = append(b.lost, n)
	})
	go b.run(b.ctx)
	t.Cleanup(func() {
		if err := b.close(context.Background()); err != nil {
			t.Errorf("close() = %v, want nil", err)
		}
	})
	return b
}

func (b *bench) told() (applied []string, lost []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.applied, b.lost
}

func (b *bench) tell(names ...string) {
	for _, name := range names {
		b.post(&Progress{Run: name})
	}
}

// outcome is what admit returned, and when.
type outcome struct {
	grant Grant
	err   error
	after time.Duration
}

// ask starts an admission. Its late grants go to late, if that is not nil.
func (b *bench) ask(ctx context.Context, name string, late func(Grant) *Progress) <-chan outcome {
	c := make(chan outcome, 1)
	began := time.Now()
	go func() {
		g, err := b.do(ctx, Op{Admit: &Admission{RunID: name}}, late)
		c <- outcome{g, err, time.Since(began)}
	}()
	return c
}

// block lets the store hang in a batch of its own until the returned func is called.
func (b *bench) block(name string) (release func()) {
	hold := make(chan struct{})
	b.script.set(func() { b.script.hold = hold })
	b.tell(name)
	synctest.Wait()
	return func() {
		b.script.set(func() { b.script.hold = nil })
		close(hold)
	}
}

func numbered(from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("p%05d", i))
	}
	return names
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
