package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// virtually runs a schedule of n calls, 2 ms apart, against callers who take as
// long as took says of the i-th call, and returns what was measured, in ms.
func virtually(t *testing.T, n, callers int, took func(i int) time.Duration) []int {
	t.Helper()
	var all []time.Duration
	synctest.Test(t, func(t *testing.T) {
		s := schedule{every: 2 * time.Millisecond, n: n, sleepUntil: func(at time.Time) { time.Sleep(time.Until(at)) }}
		due := make(chan time.Time, n)
		var calls atomic.Int64
		got := make(chan []time.Duration, callers)
		for range callers {
			go func() {
				taken, err := answerDue(t.Context(), due, func() (bool, error) {
					time.Sleep(took(int(calls.Add(1)) - 1))
					return true, nil
				})
				if err != nil {
					t.Errorf("answerDue() = %v, want nil", err)
				}
				got <- taken
			}()
		}
		s.run(t.Context(), due)
		for range callers {
			all = append(all, <-got...)
		}
	})
	ms := make([]int, len(all))
	for i, d := range all {
		ms[i] = int(d / time.Millisecond)
	}
	return ms
}

// A target that stalls once makes all the calls late that fell due meanwhile,
// and each counts from when it was due.
func TestStallCountsForEveryCallThatItKeptWaiting(t *testing.T) {
	t.Parallel()
	got := virtually(t, 10, 1, func(i int) time.Duration {
		if i == 2 {
			return 9 * time.Millisecond
		}
		return time.Millisecond
	})
	want := []int{1, 1, 9, 8, 7, 6, 5, 4, 3, 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("latencies in ms (-want +got):\n%s", diff)
	}
}

func TestSpareCallerTakesOverDuringStall(t *testing.T) {
	t.Parallel()
	got := virtually(t, 10, 2, func(i int) time.Duration {
		if i == 2 {
			return 9 * time.Millisecond
		}
		return time.Millisecond
	})
	slices.Sort(got)
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 9}, got); diff != "" {
		t.Errorf("latencies in ms (-want +got):\n%s", diff)
	}
}

// A rate that the target cannot bear shows as ever longer waits.
func TestOverloadGrows(t *testing.T) {
	t.Parallel()
	got := virtually(t, 5, 1, func(int) time.Duration { return 3 * time.Millisecond })
	if diff := cmp.Diff([]int{3, 4, 5, 6, 7}, got); diff != "" {
		t.Errorf("latencies in ms (-want +got):\n%s", diff)
	}
}

func TestScheduleEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := schedule{every: time.Millisecond, n: 1000, sleepUntil: func(time.Time) { cancel() }}
	due := make(chan time.Time, s.n)
	s.run(ctx, due)
	if _, more := <-due; more {
		t.Error("a call fell due after the end")
	}
	if _, err := answerDue(ctx, make(chan time.Time), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("answerDue(ended) = %v, want %v", err, context.Canceled)
	}
}

// serve puts the handler where a generator can call it.
func serve(t *testing.T, name string, h http.Handler) *target {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &target{name: name, addr: strings.TrimPrefix(srv.URL, "http://"), path: "/"}
}

func TestGenerator(t *testing.T) {
	t.Parallel()
	direct := serve(t, nameDirect, agent{pause: time.Millisecond})
	u, err := url.Parse("http://" + direct.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []*target{direct, serve(t, nameBare, bare(u))} {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			gen := &generator{salt: "s", tree: 11}
			const length = 100 * time.Millisecond
			var failed tally
			rate, made, err := gen.saturate(t.Context(), to, 4, length/4, length, &failed)
			if err != nil || rate <= 0 || made == 0 {
				t.Errorf("saturate() = %g, %d, %v, want calls", rate, made, err)
			}
			taken, err := gen.steady(t.Context(), to, 500, length, &failed)
			if err != nil || len(taken) != 50 {
				t.Errorf("steady(500/s for %s) = %d latencies, %v, want 50, nil", length, len(taken), err)
			}
			firsts, err := gen.streams(t.Context(), to, 4, length, &failed)
			if err != nil || len(firsts) == 0 {
				t.Errorf("streams() = %d, %v, want some", len(firsts), err)
			}
			if whole := slices.Min(append(firsts, time.Hour)); whole <= 0 {
				t.Errorf("first event after %s", whole)
			}
			if failed.n != 0 {
				t.Errorf("%d calls failed: %v", failed.n, failed.first)
			}
		})
	}
}

func TestBrokenAnswersAreTallied(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	good := agent{}
	// Every third call goes wrong.
	some := serve(t, "some", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%3 == 0 {
			http.Error(w, "no luck", http.StatusBadGateway)
			return
		}
		good.ServeHTTP(w, r)
	}))
	gen := &generator{salt: "s", tree: 11}
	var failed tally
	_, made, err := gen.saturate(t.Context(), some, 2, 0, 10*time.Second, &failed)
	if !errors.Is(err, errTooMany) || failed.n < tooMany || made == 0 || !strings.Contains(failed.first.Error(), "no luck") {
		t.Errorf("saturate() made %d, tallied %d (%v), %v; want some, %d or more (no luck), %v", made, failed.n, failed.first, err, tooMany, errTooMany)
	}

	dead := &target{name: "dead", addr: "127.0.0.1:1"}
	if _, err := gen.steady(t.Context(), dead, 500, time.Minute, &failed); err == nil {
		t.Error("steady(nobody there) = nil, want an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	hangs := serve(t, "hangs", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not look whether the caller is there
		cancel()
		<-r.Context().Done()
	}))
	if _, err := gen.streams(ctx, hangs, 1, time.Minute, &failed); !errors.Is(err, context.Canceled) {
		t.Errorf("streams(canceled) = %v, want %v", err, context.Canceled)
	}
}
