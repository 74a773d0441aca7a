package sessions

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWriterKeepsOrderInOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		release := b.block("first")
		b.tell("p1", "p2")
		admitted := b.ask(t.Context(), "a1", nil)
		synctest.Wait()
		b.tell("p3")
		release()
		if got := <-admitted; got.err != nil || got.grant.RunID != "a1" {
			t.Errorf("admit(a1) = %+v, %v, want its grant", got.grant, got.err)
		}
		synctest.Wait()
		same(t, "batches", b.script.asked(), [][]string{{"first"}, {"p1", "p2", "a1", "p3"}})
	})
}

func TestWriterBatchesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		release := b.block("first")
		b.tell(numbered(0, 2*maxBatch+1)...)
		release()
		synctest.Wait()
		same(t, "batches", b.script.asked(), [][]string{
			{"first"}, numbered(0, maxBatch), numbered(maxBatch, 2*maxBatch), numbered(2*maxBatch, 2*maxBatch+1),
		})
	})
}

func TestWriterGivesBackWhatComesTooLate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		full, down bool
		want       int // grants given back
	}{
		"granted":       {want: 1},
		"refused":       {full: true},
		"store is down": {down: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				release := b.block("first")
				ctx, leave := context.WithCancel(t.Context())
				var late []string
				admitted := b.ask(ctx, "a1", func(g Grant) *Progress {
					late = append(late, g.RunID)
					return &Progress{Run: "back"}
				})
				synctest.Wait()
				leave()
				if got := <-admitted; !errors.Is(got.err, context.Canceled) {
					t.Errorf("admit() = %v, want context.Canceled", got.err)
				}
				b.script.set(func() { b.script.full, b.script.down = tc.full, tc.down })
				release()
				synctest.Wait()
				b.script.set(func() { b.script.down = false })
				time.Sleep(2 * retryEvery)
				if len(late) != tc.want {
					t.Errorf("grants given back = %v, want %d", late, tc.want)
				}
				n := 0
				applied, _ := b.told()
				for _, name := range applied {
					if name == "back" {
						n++
					}
				}
				if n != tc.want {
					t.Errorf("what was given back was posted %d times, want %d", n, tc.want)
				}
			})
		})
	}
}

func TestWriterAsksNothingForACallerWhoHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if got := <-b.ask(ctx, "a1", nil); !errors.Is(got.err, context.Canceled) {
			t.Errorf("admit() = %v, want context.Canceled", got.err)
		}
		synctest.Wait()
		same(t, "batches", b.script.asked(), [][]string(nil))
	})
}

func TestWriterKeepsProgressForAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.script.set(func() { b.script.down = true })
		b.tell("p1", "p2")
		synctest.Wait()
		b.script.asked()
		if err := b.unavailable(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("unavailable() = %v, want ErrUnavailable", err)
		}

		got := <-b.ask(t.Context(), "a1", nil)
		if !errors.Is(got.err, ErrUnavailable) || got.after != 0 {
			t.Errorf("admit() = %v after %v, want ErrUnavailable at once", got.err, got.after)
		}
		b.tell("p3")
		time.Sleep(retryFor / 2)
		for _, batch := range b.script.asked() {
			if batch[0] != "p1" || batch[1] != "p2" {
				t.Fatalf("a retry asked for %v, want p1 and p2 first", batch)
			}
		}

		b.script.set(func() { b.script.down = false })
		time.Sleep(2 * retryEvery)
		applied, lost := b.told()
		same(t, "applied", applied, []string{"p1", "p2", "p3"})
		same(t, "dropped", lost, []int(nil))
		if err := b.unavailable(); err != nil {
			t.Errorf("unavailable() = %v, want nil", err)
		}
	})
}

func TestWriterRetriesBeforeWhatCameLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.block("first") // until it times out
		b.tell("p1", "p2")
		b.script.set(func() { b.script.hold = nil })
		time.Sleep(scriptTimeout + 2*retryEvery)
		applied, _ := b.told()
		same(t, "applied", applied, []string{"first", "p1", "p2"})
	})
}

func TestWriterRetriesWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		release := b.block("first")
		b.script.set(func() { b.script.broken = map[string]bool{"p2": true} })
		b.tell("p1", "p2", "p3")
		release()
		synctest.Wait()
		b.tell("p4")
		b.script.set(func() { b.script.broken = nil })
		time.Sleep(2 * retryEvery)
		applied, _ := b.told()
		same(t, "applied", applied, []string{"first", "p1", "p3", "p2", "p4"})
	})
}

// A store that hangs must not make a call wait behind the progress of others.
func TestWriterFailsAdmissionsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.block("first")
		b.tell(numbered(0, 3*maxBatch)...)
		got := <-b.ask(t.Context(), "a1", nil)
		if !errors.Is(got.err, ErrUnavailable) || got.after != scriptTimeout {
			t.Errorf("admit() = %v after %v, want ErrUnavailable after the one batch's %v", got.err, got.after, scriptTimeout)
		}
		b.script.set(func() { b.script.hold = nil })
	})
}

func TestWriterGivesUpAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.script.set(func() { b.script.down = true })
		const old = 3 * maxBatch
		b.tell(numbered(0, old)...)
		time.Sleep(retryFor / 2)
		b.tell("young")
		if _, lost := b.told(); lost != nil {
			t.Errorf("dropped after %v: %v, want none", retryFor/2, lost)
		}
		time.Sleep(retryFor/2 + 2*retryEvery)
		_, lost := b.told()
		same(t, "dropped", lost, []int{old})
		b.script.set(func() { b.script.down = false })
		time.Sleep(2 * retryEvery)
		applied, _ := b.told()
		same(t, "applied", applied, []string{"young"})
	})
}

func TestWriterProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.script.set(func() { b.script.down = true })
		if got := <-b.ask(t.Context(), "a1", nil); !errors.Is(got.err, ErrUnavailable) {
			t.Errorf("admit() = %v, want ErrUnavailable", got.err)
		}
		time.Sleep(5 * retryEvery)
		if err := b.unavailable(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("unavailable() = %v, want ErrUnavailable", err)
		}
		b.script.set(func() { b.script.down = false })
		time.Sleep(2 * retryEvery)
		if err := b.unavailable(); err != nil {
			t.Errorf("unavailable() = %v, want nil: the store is back", err)
		}
		b.script.set(func() { b.script.pings = 0 })
		time.Sleep(10 * retryEvery)
		b.script.set(func() {
			if b.script.pings != 0 {
				t.Errorf("%d probes of a store that answers, want none", b.script.pings)
			}
		})
		if got := <-b.ask(t.Context(), "a2", nil); got.err != nil {
			t.Errorf("admit() = %v, want nil", got.err)
		}
	})
}

func TestWriterCloseFlushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		release := b.block("first")
		b.tell(numbered(0, 2*maxBatch)...)
		go func() {
			time.Sleep(time.Second)
			release()
		}()
		if err := b.close(t.Context()); err != nil {
			t.Fatalf("close() = %v, want nil", err)
		}
		applied, lost := b.told()
		same(t, "applied", applied, append([]string{"first"}, numbered(0, 2*maxBatch)...))
		same(t, "dropped", lost, []int(nil))

		if got := <-b.ask(t.Context(), "a1", nil); !errors.Is(got.err, ErrUnavailable) {
			t.Errorf("admit() after close = %v, want ErrUnavailable", got.err)
		}
		b.tell("too late")
		_, lost = b.told()
		same(t, "dropped after close", lost, []int{1})
	})
}

func TestWriterCloseTriesOnceWhileDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.block("first") // for ever: the store hangs
		const n = 3 * maxBatch
		b.tell(numbered(0, n)...)
		began := time.Now()
		if err := b.close(t.Context()); err != nil {
			t.Fatalf("close() = %v, want nil", err)
		}
		_, lost := b.told()
		total := 0
		for _, n := range lost {
			total += n
		}
		if total != n+1 {
			t.Errorf("dropped %d, want all %d", total, n+1)
		}
		if took, most := time.Since(began), 2*scriptTimeout+retryEvery; took > most {
			t.Errorf("close() took %v, want at most %v: the batch under way and one try", took, most)
		}
	})
}

func TestWriterCloseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.block("first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close() = %v, want context.DeadlineExceeded", err)
		}
	})
}

func TestWriterMakesPostersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		hold := make(chan struct{})
		b.script.set(func() { b.script.hold = hold })
		// Its caller leaves while the store is at it: giving it back must not
		// wait for room that only the writer itself makes.
		ctx, leave := context.WithCancel(t.Context())
		b.ask(ctx, "a1", func(Grant) *Progress { return &Progress{Run: "back"} })
		synctest.Wait()
		leave()
		for range maxPending {
			b.tell("p")
		}
		posted := make(chan struct{})
		go func() {
			b.tell("over")
			close(posted)
		}()
		synctest.Wait()
		select {
		case <-posted:
			t.Error("post() returned with maxPending ops waiting, want it to wait")
		default:
		}
		close(hold)
		<-posted
		synctest.Wait()
		applied, lost := b.told()
		if want := maxPending + 3; len(applied) != want {
			t.Errorf("%d ops applied, want %d", len(applied), want)
		}
		same(t, "dropped", lost, []int(nil))
	})
}

func TestWriterCloseReleasesPosters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		release := b.block("first")
		for range maxPending {
			b.tell("p")
		}
		posted := make(chan struct{})
		go func() {
			b.tell("over")
			close(posted)
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- b.close(context.Background()) }()
		<-posted
		release()
		if err := <-closed; err != nil {
			t.Errorf("close() = %v, want nil", err)
		}
		if applied, _ := b.told(); len(applied) != maxPending+2 {
			t.Errorf("%d ops applied, want %d", len(applied), maxPending+2)
		}
	})
}

func TestProgressWaitsALittleForCompany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.setCalm()
		start := time.Now()
		b.tell("p1")
		synctest.Wait()
		same(t, "batches while it waits", len(b.script.asked()), 0)
		b.tell("p2")
		<-b.ask(t.Context(), "a1", nil)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("an admission waited %s, want none", waited)
		}
		b.tell("p3")
		time.Sleep(linger)
		synctest.Wait()
		same(t, "batches", b.script.asked(), [][]string{{"p1", "p2", "a1"}, {"p3"}})
	})
}

func TestProgressHurriesForThoseInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.tell("p1")
		synctest.Wait()
		same(t, "batches", b.script.asked(), [][]string{{"p1"}})
	})
}

func TestSyncComesAfterWhatWasPosted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.setCalm()
		start := time.Now()
		b.tell("p1")
		if err := b.sync(t.Context()); err != nil {
			t.Errorf("sync() = %v, want nil", err)
		}
		applied, _ := b.told()
		same(t, "applied before sync returns", applied, []string{"p1"})
		if waited := time.Since(start); waited != 0 {
			t.Errorf("sync took %s, want none", waited)
		}

		release := b.block("first")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.sync(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("sync(ended ctx) = %v, want context.Canceled", err)
		}
		release()

		b.script.set(func() { b.script.down = true })
		b.tell("p2")
		if err := b.sync(t.Context()); err != nil {
			t.Errorf("sync() without the store = %v, want nil: there is nothing to wait for", err)
		}
	})
}

// While the store does not answer, what finds no room is given up and counted:
// calls must go on.
func TestFullWriterWithoutAStoreHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.script.set(func() { b.script.down = true })
		b.tell("p0")
		synctest.Wait()
		b.tell(numbered(1, maxPending+3)...)
		if _, lost := b.told(); len(lost) != 3 {
			t.Errorf("%d given up, want 3", len(lost))
		}
	})
}
