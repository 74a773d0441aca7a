package sessions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func TestLineIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 64
		p := newPlaces()
		p.callerCap[""] = 1
		var calls []*Admission
		var results []<-chan outcome
		var want []string
		for i := range n {
			a := call(fmt.Sprint(i), "", fmt.Sprintf("agent-%d", i))
			calls, want = append(calls, a), append(want, a.RunID)
			results = append(results, p.waitFor(t.Context(), a))
		}
		if got := p.lines.waiting(); got != n-1 {
			t.Errorf("waiting() = %d, want %d", got, n-1)
		}
		for i, a := range calls {
			o := <-results[i]
			if o.err != nil || o.grant.RunID != a.RunID {
				t.Fatalf("call %d = %+v, want its grant", i, o)
			}
			if o.after != 0 {
				t.Errorf("call %d got its place after %v, want at once when it came free", i, o.after)
			}
			p.free(true, a)
			synctest.Wait()
		}
		same(t, "order of grants", p.got(), want)
		if got := p.lines.waiting(); got != 0 || len(p.lines.by) != 0 {
			t.Errorf("%d wait in %d lines at the end, want none", got, len(p.lines.by))
		}
	})
}

func TestOnlyTheFirstInLineTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		p.waitFor(t.Context(), call("holder", "", "a"))
		first, second := call("first", "", "a"), call("second", "", "a")
		p.waitFor(t.Context(), first)
		c := p.waitFor(t.Context(), second)
		time.Sleep(20 * recheck)
		if p.tried(first) < 15 {
			t.Errorf("the first tried %d times in %v, want every %v or so", p.tried(first), 20*recheck, recheck)
		}
		if got := p.tried(second); got != 0 {
			t.Errorf("the second tried %d times, want none", got)
		}
		pending(t, "second", c)
		time.Sleep(time.Minute)
	})
}

func TestBusyAgentHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.agent["busy"] = 1
		holder := call("holder", "", "busy")
		<-p.waitFor(t.Context(), holder)
		waits := p.waitFor(t.Context(), call("waits", "", "busy"))
		if o := <-p.waitFor(t.Context(), call("sibling", "", "idle")); o.err != nil || o.after != 0 {
			t.Errorf("call to an idle agent = %v after %v, want a place at once", o.err, o.after)
		}
		pending(t, "call to the busy agent", waits)
		other := p.waitFor(t.Context(), call("other", "c2", "busy"))
		pending(t, "another caller's call to the busy agent", other)
		p.free(true, holder)
		if o := <-waits; o.err != nil || o.after != 0 {
			t.Errorf("first call to the busy agent = %v after %v, want the place", o.err, o.after)
		}
		synctest.Wait()
		pending(t, "second call to the busy agent", other)
		time.Sleep(time.Minute)
	})
}

func TestOtherCallersDoNotWaitInOnesLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		p.callerCap["child"] = 1
		<-p.waitFor(t.Context(), call("holder", "", "a"))
		// The root by either name is one caller.
		pending(t, "root", p.waitFor(t.Context(), call("1", "", "a")))
		pending(t, "root by name", p.waitFor(t.Context(), call("2", "r", "a")))
		if o := <-p.waitFor(t.Context(), call("3", "child", "a")); o.err != nil {
			t.Errorf("call of the holder's child = %v, want a place: it must not wait for its parent's", o.err)
		}
		time.Sleep(time.Minute)
	})
}

// A call from below the root may stand below the very call that holds the place
// which the line waits for. Caps leave that place out of account; so must lines.
func TestDescendantIsNotKeptBehindAnAgentsLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.agent["a"] = 1
		ancestor := call("ancestor", "", "a")
		<-p.waitFor(t.Context(), ancestor)
		waits := p.waitFor(t.Context(), call("waits", "", "a"))
		pending(t, "the one in line", waits)
		p.free(false, ancestor) // as caps see it from below
		if o := <-p.waitFor(t.Context(), call("descendant", "child", "a")); o.err != nil || o.after != 0 {
			t.Errorf("descendant's call = %v after %v, want it to try at once", o.err, o.after)
		}
		pending(t, "the one in line", waits)
		time.Sleep(time.Minute)
	})
}

func TestContinuedTaskWaitsBehindNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.agent["a"] = 2
		<-p.waitFor(t.Context(), call("one", "", "a"))
		two := call("two", "", "a")
		<-p.waitFor(t.Context(), two)
		c := p.waitFor(t.Context(), call("waits", "", "a"))
		p.free(false, two) // unseen here: the line still stands
		resume := call("resume", "", "a")
		resume.TaskID = "t"
		if o := <-p.waitFor(t.Context(), resume); o.err != nil || o.after != 0 {
			t.Errorf("call with a task = %v after %v, want it to try at once", o.err, o.after)
		}
		pending(t, "the one in line", c)
		time.Sleep(time.Minute)
	})
}

func TestQueueTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 2
		<-p.waitFor(t.Context(), call("1", "", "a"))
		<-p.waitFor(t.Context(), call("2", "", "a"))
		first, second := call("first", "", "a"), call("second", "", "b")
		second.Limits.QueueTimeout = 10 * time.Second
		f, s := p.waitFor(t.Context(), first), p.waitFor(t.Context(), second)
		p.mu.Lock()
		p.out[callerKey(first)] = 5 // the cap was overrun somewhere else
		p.mu.Unlock()
		o := <-s
		if o.after != 10*time.Second {
			t.Errorf("second left after %v, want its own 10s", o.after)
		}
		if r := reasonOf(t, o.err); r.Reason != lineage.FanOutLimit || r.Count != 5 || r.Agent != "b" {
			t.Errorf("second was refused with %+v, want what was heard last (count 5), told to b", *r)
		}
		o = <-f
		if o.after != time.Minute {
			t.Errorf("first left after %v, want 1m", o.after)
		}
		if r := reasonOf(t, o.err); r.Count != 5 || r.Agent != "a" {
			t.Errorf("first was refused with %+v, want what was heard last (count 5), told to a", *r)
		}
		if got := len(p.lines.by); got != 0 {
			t.Errorf("%d lines are left, want none", got)
		}
	})
}

func TestNoQueueTimeoutRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		<-p.waitFor(t.Context(), call("holder", "", "a"))
		for range 2 { // with nobody in line, and with somebody
			a := call("hasty", "", "b")
			a.Limits.QueueTimeout = 0
			o := <-p.waitFor(t.Context(), a)
			if r := reasonOf(t, o.err); r.Reason != lineage.FanOutLimit || r.Agent != "b" || o.after != 0 {
				t.Errorf("refused with %+v after %v, want FANOUT_LIMIT told to b, at once", *r, o.after)
			}
			p.waitFor(t.Context(), call("patient", "", "a"))
		}
		time.Sleep(time.Minute)
	})
}

func TestNoWaitingWhereItDoesNotHelp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLines()
		a := call("x", "", "a")
		for _, want := range []error{
			&lineage.Refusal{Reason: lineage.DepthLimit}, &lineage.Refusal{Reason: lineage.ContextForbidden}, ErrUnavailable,
		} {
			_, err := ls.admit(t.Context(), a, func() (Grant, error) { return Grant{}, want }, func(*lineage.Refusal) {
				t.Errorf("a call refused with %v is queued", want)
			})
			if !errors.Is(err, want) {
				t.Errorf("admit() = %v, want %v", err, want)
			}
		}
	})
}

func TestCallerWhoGoesLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		holder := call("holder", "", "a")
		<-p.waitFor(t.Context(), holder)
		ctx, leave := context.WithCancel(t.Context())
		first := p.waitFor(ctx, call("first", "", "a"))
		second := p.waitFor(t.Context(), call("second", "", "a"))
		leave()
		if o := <-first; !errors.Is(o.err, context.Canceled) {
			t.Errorf("who left got %v, want context.Canceled", o.err)
		}
		if got := p.lines.waiting(); got != 1 {
			t.Errorf("waiting() = %d, want 1", got)
		}
		p.free(true, holder)
		if o := <-second; o.err != nil || o.after != 0 {
			t.Errorf("the one behind got %v after %v, want the place", o.err, o.after)
		}
	})
}

// The first may leave with the wake-up in its pocket.
func TestLeavingPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			p := newPlaces()
			p.callerCap[""] = 1
			holder := call("holder", "", "a")
			<-p.waitFor(t.Context(), holder)
			ctx, leave := context.WithCancel(t.Context())
			gone := call("gone", "", "a")
			first := p.waitFor(ctx, gone)
			second := p.waitFor(t.Context(), call("second", "", "a"))
			go p.free(true, holder)
			leave()
			if o := <-first; o.err == nil {
				p.free(true, gone)
			}
			if o := <-second; o.err != nil || o.after != 0 {
				t.Errorf("the one behind got %v after %v, want the place at once", o.err, o.after)
			}
		})
	}
}

func TestPlacesFreedTogetherAreAllUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 3
		var held []*Admission
		for i := range 3 {
			a := call(fmt.Sprint("holder", i), "", "a")
			held = append(held, a)
			<-p.waitFor(t.Context(), a)
		}
		var results []<-chan outcome
		for i := range 4 {
			results = append(results, p.waitFor(t.Context(), call(fmt.Sprint(i), "", "a")))
		}
		p.free(false, held[1:]...)
		p.free(true, held[0]) // one wake-up for three places
		for i := range 3 {
			if o := <-results[i]; o.err != nil || o.after != 0 {
				t.Errorf("call %d = %v after %v, want a place at once", i, o.err, o.after)
			}
		}
		synctest.Wait()
		pending(t, "the fourth", results[3])
		time.Sleep(time.Minute)
	})
}

func TestFirstInLineMovesToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		p.agent["busy"] = 1
		mine, others := call("mine", "", "idle"), call("others", "c2", "busy")
		<-p.waitFor(t.Context(), mine)
		<-p.waitFor(t.Context(), others)
		moving := p.waitFor(t.Context(), call("moving", "", "busy")) // refused as its caller's second
		ahead := p.waitFor(t.Context(), call("ahead", "c3", "busy"))
		behind := p.waitFor(t.Context(), call("behind", "", "idle"))

		p.free(true, mine)
		if o := <-behind; o.err != nil || o.after != 0 {
			t.Errorf("the one behind = %v after %v, want the place that the moved one cannot use", o.err, o.after)
		}
		synctest.Wait()
		pending(t, "the moved one", moving)
		if got := p.lines.waiting(); got != 2 {
			t.Errorf("waiting() = %d, want 2", got)
		}
		// At the end of the busy agent's line; and its own time goes on.
		time.Sleep(30 * time.Second)
		p.free(true, others)
		if o := <-ahead; o.err != nil {
			t.Errorf("the one ahead = %v, want the place", o.err)
		}
		o := <-moving
		if r := reasonOf(t, o.err); o.after != time.Minute {
			t.Errorf("the moved one was refused with %v after %v, want after 1m in all", *r, o.after)
		}
	})
}

// A place that came free unheard is found when the time to wait is over, if not before.
func TestLastTryBeforeTheRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		holder := call("holder", "", "a")
		<-p.waitFor(t.Context(), holder)
		late := call("late", "", "a")
		late.Limits.QueueTimeout = recheck / 2
		c := p.waitFor(t.Context(), late)
		p.free(false, holder)
		if o := <-c; o.err != nil || o.after != recheck/2 {
			t.Errorf("got %v after %v, want the place after %v", o.err, o.after, recheck/2)
		}
	})
}

func TestNobodyOvertakesALine(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]*Admission{
		"of the caller": call("first", "", "idle"), "of the agent": call("first", "c2", "busy"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlaces()
				p.callerCap[""], p.agent["busy"] = 1, 1
				holder := call("holder", "", "busy")
				<-p.waitFor(t.Context(), holder)
				p.waitFor(t.Context(), first)
				p.free(false, holder) // where nobody here sees it
				p.waitFor(t.Context(), call("later", "", "busy"))
				time.Sleep(2 * recheck)
				if got := p.got(); len(got) < 2 || got[1] != "first" {
					t.Errorf("places went to %v, want the one who waits before who comes later", got)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A place that comes free after the refusal and before the line is joined
// wakes nobody: there is no line yet.
func TestPlaceFreedBeforeJoiningIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		holder, a := call("holder", "", "a"), call("waits", "", "a")
		<-p.waitFor(t.Context(), holder)
		began := time.Now()
		_, err := p.lines.admit(t.Context(), a, func() (Grant, error) { return p.take(a) }, func(*lineage.Refusal) {
			p.free(true, holder)
		})
		if took := time.Since(began); err != nil || took != 0 {
			t.Errorf("admit() = %v after %v, want the place at once", err, took)
		}
	})
}

func TestRecheckFindsWhatOthersFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		holder := call("holder", "", "a")
		<-p.waitFor(t.Context(), holder)
		c := p.waitFor(t.Context(), call("waits", "", "a"))
		time.Sleep(10 * time.Second)
		p.free(false, holder)
		o := <-c
		if late := o.after - 10*time.Second; o.err != nil || late > recheck*5/4 {
			t.Errorf("got %v, %v after another sidecar freed the place, want it within %v", o.err, late, recheck*5/4)
		}
	})
}

func TestLineIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		<-p.waitFor(t.Context(), call("holder", "", "a"))
		ctx, leave := context.WithCancel(t.Context())
		for i := range maxWaiting {
			go func() {
				a := call(fmt.Sprint(i), "", "a")
				_, err := p.lines.admit(ctx, a, func() (Grant, error) { return p.take(a) }, func(*lineage.Refusal) {})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("admit() = %v, want context.Canceled", err)
				}
			}()
		}
		synctest.Wait()
		o := <-p.waitFor(t.Context(), call("over", "", "a"))
		if r := reasonOf(t, o.err); r.Reason != lineage.FanOutLimit || o.after != 0 {
			t.Errorf("refused with %+v after %v, want FANOUT_LIMIT at once", *r, o.after)
		}
		leave()
		synctest.Wait()
		if got := p.lines.waiting(); got != 0 {
			t.Errorf("waiting() = %d after all have left, want 0", got)
		}
	})
}

func TestQueuedIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.callerCap[""] = 1
		holder := call("holder", "", "a")
		<-p.waitFor(t.Context(), holder)
		told := 0
		go func() {
			time.Sleep(5 * recheck)
			p.free(true, holder)
		}()
		a := call("waits", "", "a")
		_, err := p.lines.admit(t.Context(), a, func() (Grant, error) { return p.take(a) }, func(r *lineage.Refusal) {
			told++
			if r.Reason != lineage.FanOutLimit {
				t.Errorf("queued with %+v, want FANOUT_LIMIT", *r)
			}
		})
		if err != nil || told != 1 {
			t.Errorf("admit() = %v, told of the queueing %d times, want nil and once", err, told)
		}
	})
}

// Whatever the interleaving: the caps hold, nobody is forgotten, and no place
// stays empty until the recheck while somebody waits for it.
func TestLinesLoseNobody(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const callers, calls, most = 3, 40, 4
			p := newPlaces()
			p.callerCap = map[string]int{"c0": most, "c1": most, "c2": most}
			p.agent["a0"] = 3
			began := time.Now()
			var wg sync.WaitGroup
			for c := range callers {
				name := fmt.Sprintf("c%d", c)
				for i := range calls {
					rng := rand.New(rand.NewPCG(seed, uint64(c*calls+i)))
					a := call(fmt.Sprintf("%s/%d", name, i), name, fmt.Sprintf("a%d", rng.IntN(3)))
					a.Limits.QueueTimeout = time.Hour
					wg.Go(func() {
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						if rng.IntN(5) == 0 {
							defer time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, leave).Stop()
						}
						_, err := p.lines.admit(ctx, a, func() (Grant, error) { return p.take(a) }, func(*lineage.Refusal) {})
						if errors.Is(err, context.Canceled) {
							return
						}
						if err != nil {
							t.Errorf("admit(%s) = %v, want a place", a.RunID, err)
							return
						}
						time.Sleep(time.Millisecond)
						p.free(true, a)
					})
				}
			}
			wg.Wait()
			if p.most > most {
				t.Errorf("seed %d: %d places at once, want at most %d", seed, p.most, most)
			}
			if got := p.lines.waiting(); got != 0 || len(p.lines.by) != 0 {
				t.Errorf("seed %d: %d wait in %d lines at the end, want none", seed, got, len(p.lines.by))
			}
			// All calls one after another, even, would take less than this.
			if took := time.Since(began); took > recheck {
				t.Errorf("seed %d: took %v, want less than %v: a wake-up was lost", seed, took, recheck)
			}
		})
	}
}
