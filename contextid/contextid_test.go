package contextid_test

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
)

// The rows of the design's table "Which context a call runs in", but for the
// retry, which the store decides. Every row holds for isolateSessions off and
// on, and for each of the three who may make ids.
func TestDecide(t *testing.T) {
	t.Parallel()
	type (
		question = contextid.Question
		answer   = contextid.Answer
	)
	var (
		asSent   = answer{Action: contextid.AsSent}
		mint     = answer{Action: contextid.Mint}
		keep     = answer{Action: contextid.Keep}
		omit     = answer{Action: contextid.Omit}
		derive   = answer{Action: contextid.Derive}
		bound    = answer{Action: contextid.Bound}
		crossed  = answer{Action: contextid.Derive, Crossed: true}
		crossedB = answer{Action: contextid.Bound, Crossed: true}
	)
	rows := []struct {
		name string
		q    question // Mode and Isolate are set by the columns

		shared, isolated           answer // contextIds: sidecar
		sharedAgent, isolatedAgent answer // contextIds: agent
	}{
		{"has a task", question{TaskID: true}, asSent, asSent, asSent, asSent},
		{"has a task, names a context", question{TaskID: true, Named: true, TreeKnown: true}, asSent, asSent, asSent, asSent},
		{"has a task, names another tree's context", question{TaskID: true, Named: true, Foreign: true, TreeKnown: true}, asSent, asSent, asSent, asSent},
		{"names a context it may use", question{Named: true, TreeKnown: true}, keep, mint, keep, omit},
		{"names a context it may use, tree unknown", question{Named: true}, keep, mint, keep, omit},
		{"names another tree's context", question{Named: true, Foreign: true, TreeKnown: true}, crossed, mint, crossedB, omit},
		{"names another tree's context, tree unknown", question{Named: true, Foreign: true}, crossed, mint, crossedB, omit},
		{"names none, tree known", question{TreeKnown: true}, derive, mint, bound, omit},
		{"names none, tree unknown", question{}, omit, mint, omit, omit},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, column := range []struct {
				mode    contextid.Mode
				isolate bool
				want    answer
			}{
				{contextid.Sidecar, false, row.shared},
				{contextid.Sidecar, true, row.isolated},
				{contextid.Agent, false, row.sharedAgent},
				{contextid.Agent, true, row.isolatedAgent},
				{contextid.Passthrough, false, asSent}, // never touches an id
				{contextid.Passthrough, true, asSent},
			} {
				q := row.q
				q.Mode, q.Isolate = column.mode, column.isolate
				if got := contextid.Decide(q); got != column.want {
					t.Errorf("Decide(%+v) = %+v, want %+v", q, got, column.want)
				}
			}
		})
	}
}

var shape = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestStable(t *testing.T) {
	t.Parallel()
	key := make([]byte, contextid.KeySize)
	for i := range key {
		key[i] = byte(i)
	}
	id := contextid.Stable(key, "alice", "root", "worker")
	// A change of this id would part every conversation from its sessions.
	if want := "34df6326-6024-88aa-90cd-f420a21724cd"; id != want {
		t.Errorf("Stable(…) = %s, want %s", id, want)
	}
	if !shape.MatchString(id) {
		t.Errorf("Stable(…) = %s, want a UUID of version 8", id)
	}
	if u, err := uuid.Parse(id); err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		t.Errorf("Parse(%s) = version %d, variant %s, %v, want 8 and RFC 4122", id, u.Version(), u.Variant(), err)
	}
	if again := contextid.Stable(slices.Clone(key), "alice", "root", "worker"); again != id {
		t.Errorf("Stable(…) = %s the second time, want %s", again, id)
	}
}

// Whatever differs, the id does: also where the parts, strung together, are
// the same bytes.
func TestStableDiffers(t *testing.T) {
	t.Parallel()
	key, other := make([]byte, contextid.KeySize), make([]byte, contextid.KeySize)
	other[contextid.KeySize-1] = 1
	seen := map[string]string{}
	for _, in := range []struct {
		key                    []byte
		principal, root, agent string
	}{
		{key, "alice", "root", "worker"},
		{other, "alice", "root", "worker"},
		{key, "bob", "root", "worker"},
		{key, "alice", "root2", "worker"},
		{key, "alice", "root", "worker2"},
		{key, "", "root", "worker"},
		{key, "", "", "worker"},
		{key, "", "", ""},
		{key, "aliceroot", "", "worker"},
		{key, "", "aliceroot", "worker"},
		{key, "alicer", "oot", "worker"},
		{key, "alice", "rootworker", ""},
		{key, "alice", "", "rootworker"},
		{key, "", "", "alicerootworker"},
		{key, "root", "alice", "worker"},
		{key, "a\x00", "b", "c"},
		{key, "a", "\x00b", "c"},
	} {
		id := contextid.Stable(in.key, in.principal, in.root, in.agent)
		of := fmt.Sprintf("%v", in)
		if before, ok := seen[id]; ok {
			t.Errorf("Stable(%s) = Stable(%s) = %s", of, before, id)
		}
		seen[id] = of
		if !shape.MatchString(id) {
			t.Errorf("Stable(%s) = %s, want a UUID of version 8", of, id)
		}
	}
}

func TestFresh(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 500
	ids := make([][]string, goroutines)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			for range each {
				ids[i] = append(ids[i], contextid.Fresh())
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, some := range ids {
		if !slices.IsSorted(some) {
			t.Errorf("ids made one after the other are not in order")
		}
		for _, id := range some {
			if u, err := uuid.Parse(id); err != nil || u.Version() != 7 {
				t.Fatalf("Fresh() = %s, want a UUID of version 7", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != goroutines*each {
		t.Errorf("%d calls of Fresh made %d ids", goroutines*each, len(seen))
	}
}

func ExampleDecide() {
	// A coordinator echoes the context that it saw last, of another conversation.
	answer := contextid.Decide(contextid.Question{Mode: contextid.Sidecar, Named: true, Foreign: true, TreeKnown: true})
	fmt.Println("derive:", answer.Action == contextid.Derive, "crossed:", answer.Crossed)
	// Output:
	// derive: true crossed: true
}

func ExampleStable() {
	key := make([]byte, contextid.KeySize) // the store's secret
	here := contextid.Stable(key, "alice", "conversation-1", "worker")
	there := contextid.Stable(key, "alice", "conversation-1", "worker")
	other := contextid.Stable(key, "alice", "conversation-2", "worker")
	fmt.Println("the same in every replica:", here == there)
	fmt.Println("the same in another conversation:", here == other)
	// Output:
	// the same in every replica: true
	// the same in another conversation: false
}
