package main

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// What is measured as a recorded call is one: admitted, with its task and its
// result, and ended.
func TestRecordedCallsAreWhole(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func() (*storetest.Model, error){
		"in batches": func() (*storetest.Model, error) {
			s := storetest.NewModel(time.Now)
			_, err := batches(3)(t.Context(), s, time.Now().Add(20*time.Millisecond))
			return s, err
		},
		"through the record": func() (*storetest.Model, error) {
			s := storetest.NewModel(time.Now)
			_, err := callers(3)(t.Context(), s, time.Now().Add(20*time.Millisecond))
			return s, err
		},
	} {
		s, err := do()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		page, err := s.Trees(t.Context(), sessions.TreeQuery{})
		if err != nil || len(page.Trees) == 0 {
			t.Fatalf("%s: %d trees, %v", name, len(page.Trees), err)
		}
		all, err := sessions.AllSessions(t.Context(), s, page.Trees[0].Root)
		if err != nil || len(all) < 2 {
			t.Fatalf("%s: %d sessions, %v", name, len(all), err)
		}
		for _, c := range all[1:] {
			if c.State != lineage.Completed || c.Result == nil || !c.Isolated || len(c.Runs) != 1 || c.Runs[0].TaskID == "" {
				t.Errorf("%s: a recorded call is %+v", name, c)
			}
		}
	}
}

// An admission that is measured is the last that the cap allows.
func TestAdmissionsAreAtTheCap(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	store, err := openRedis(t.Context(), srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	a, err := besideHSET(t.Context(), store, srv.Client(t), 3, 5)
	if err != nil || a.HSET <= 0 || a.Admission <= 0 || a.Ratio != a.Admission/a.HSET {
		t.Fatalf("besideHSET() = %+v, %v", a, err)
	}
	tree, err := store.Tree(t.Context(), "admissions-3")
	if err != nil || tree.Live != 2 || tree.Sessions != 1+2+5 {
		t.Errorf("%d sessions, %d of them live, %v, want 8, 2", tree.Sessions, tree.Live, err)
	}
	ops := []*sessions.Op{admit("admissions-3", 3), admit("admissions-3", 3)}
	if store.Apply(t.Context(), ops); ops[0].Err != nil || ops[1].Err == nil {
		t.Errorf("two more: %v, %v, want the second refused", ops[0].Err, ops[1].Err)
	}
}

func TestStoresTable(t *testing.T) {
	t.Parallel()
	s := stores{
		Admissions: []admission{{Children: 8, HSET: 20, Admission: 25, Ratio: 1.25}, {Children: 10_000, HSET: 20, Admission: 30, Ratio: 1.5}},
		Costs:      []cost{{Sessions: 10, Sent: 1.5, Inside: 12.25, In: 1500, Out: 60.4, CPU: 55}},
		Recorded:   []recorded{{"straight", 6000, 120}},
		Notes:      []string{"a note"},
	}
	var out bytes.Buffer
	s.write(&out)
	const want = `
an admission beside a plain HSET, one at a time, at the same Redis
  live children  HSET µs  admission µs  ÷ HSET    aim
              8       20            25    1.25  ≤ 1.5
          10000       20            30    1.50  ≤ 2.0

what Redis has to do for one recorded, isolated call: admission, task, artifact, end
  sessions in the tree  commands sent  within scripts  bytes in  bytes out  server µs
                    10           1.50            12.2      1500         60         55

calls recorded in full in SQLite, on disk: admission, task, artifact, end (aim ≥ 5000/s)
  straight  6000/s  120 µs of CPU each
a note
`
	got := regexp.MustCompile(`(?m) +$`).ReplaceAllString(out.String(), "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
