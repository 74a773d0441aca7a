// Package storetest holds every store to the same rules.
//
//	Run ──────────▶ named cases, one per rule ──▶ a store
//	Differential ─▶ random steps ──┬────────────▶ a store ─┐
//	                               └────────────▶ Model   ─┴─▶ must not differ
//	Property ─────▶ random lives of three sidecars ─▶ the same, and the books
//	                                                  balance after every step
//	Linearizable ─▶ many clients at once ────────▶ a store, as if one by one
//
// [Model] is the reference: a store written to be obviously right. The cases
// and the model know the interface of package sessions and nothing of any
// store; a store's own tests (keys, files, outages) stay with the store.
//
// Where the interface leaves a choice, Model's is the one that holds, so that
// a tree reads the same whichever store kept it:
//
//   - An event bears the turn whose call holds its run, else its session's.
//   - Tree.Errors counts the runs that have failed and were not corrected.
//   - A message or task names the last run that a call opened with it; of runs
//     that only learnt the task, the first.
//   - An alias, like a session's own context, names its session as caller too.
//   - The shared session that follows an ended one takes over its context.
//   - What has lapsed is settled in the order it came due, then of ids; whether
//     it still is due counts when its turn comes.
//   - A run that goes on without a call gets a lease as long as its last.
//   - What a cascade does bears the trace of whoever asked for the end, if
//     somebody did by a [sessions.Change], and no trace else.
//   - Every admission, and every step of a session that is there, settles what
//     is due first, though it is refused then, or finds nothing to do.
//   - A root session that was asked to stop is forced to like any other.
//   - A call without a TTL into a session that has ended takes its deadline off:
//     that was of the time before the end.
//   - What is opened in an ended session after its parent's end, by a caller that
//     goes on, is that caller's: no end above it stops it.
//
// What nobody may rely on is not compared: which of two trees of the same
// instant is listed first, and what happens at the very instant that a lease or
// deadline ends.
package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Open returns an empty store whose clock is now, to be closed when tb ends.
type Open func(tb testing.TB, now func() time.Time) sessions.Store

// Run checks the store against every rule, one subtest each. Most share one
// store, each in trees of its own; those that move the clock or count over all
// trees open one for themselves.
func Run(t *testing.T, open Open) {
	t.Helper()
	clock := newClock()
	together := open(t, clock.now)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, store: together, clock: clock, root: fmt.Sprintf("root-%02d", i)}
			if c.alone {
				w.clock = newClock()
				w.store = open(t, w.clock.now)
			}
			c.check(w)
			w.consistent()
		})
	}
}

// testCase is one rule.
type testCase struct {
	name  string
	alone bool // needs a store, and a clock, of its own
	check func(w *world)
}

var cases = []testCase{
	// Caps.
	{"depth is capped for branches and workers", false, depthCap},
	{"maxDepth lowers the cap", false, depthCapLowered},
	{"an unknown caller's depth counts", false, depthOfPlaceholder},
	{"maxChildren counts live children of one parent", false, childrenCap},
	{"maxChildren counts the parent of the session found", false, childrenCapOfFoundSession},
	{"maxFanOut counts open runs out of one caller", false, fanOutCap},
	{"a suspended run is a child but no fan-out", false, suspendedCounts},
	{"an idle shared session takes no place", false, idleTakesNoPlace},
	{"maxSessions counts a turn", false, sessionsCapByTurn},
	{"maxSessions counts an hour without a turn", true, sessionsCapByHour},
	{"maxSessions counts no placeholder and no known session", false, sessionsCapCountsSpawns},
	{"maxSessions spares the catch-all tree", false, sessionsCapSparesCatchAll},
	{"maxVisits guards against loops", false, visitsCap},
	{"maxConcurrent counts over all trees", true, concurrencyCap},
	{"maxConcurrent spares an ancestor's place", true, concurrencyCapSparesAncestors},
	{"a worker calls nobody", false, workerCallsNobody},
	{"an ended session calls nobody", false, endedCallsNobody},
	{"nor does a stranger below an ended root", false, strangerBelowEnded},
	{"another principal's tree is refused", false, foreignPrincipal},
	{"a refused first call makes no tree", false, refusedMakesNoTree},
	{"zero limits cap nothing but depth", false, noLimits},

	// Which session a call finds, and which it comes from.
	{"a first call makes tree, root session and session", false, firstCall},
	{"an unknown caller gets a placeholder", false, placeholder},
	{"a remote root is called root", false, remoteRoot},
	{"a caller is known by its context", false, callerByContext},
	{"a sibling's parent is the caller", false, callerBySibling},
	{"a shared context is found again", false, foundByContext},
	{"a context is found at its own agent only", false, foundAtItsAgent},
	{"the shared session of an agent is found again", false, foundByAgent},
	{"an ended shared session is followed by a new one", true, endedIsReplaced},
	{"a retry while open is the same run", true, retryOpen},
	{"a retry of a waiting run lets it go on", false, retrySuspended},
	{"a retry after the end is a new run of the session", false, retryEnded},
	{"a retry of a lost retry is the newest run", true, retryTwice},
	{"the same message id at another agent is no retry", false, retryElsewhere},
	{"a waiting task goes on in its session", false, resumeTask},
	{"an open task goes on without a further place", true, resumeOpenTask},
	{"an ended task gets a new run", false, resumeEndedTask},
	{"a run that goes on keeps its caller", false, resumeKeepsCaller},
	{"resuming needs a place", true, resumeNeedsPlace},
	{"tokens and labels follow the spawns", false, tokensAndLabels},

	// Contexts, tasks and what they belong to.
	{"a session's context is bound to its tree", false, contextIsBound},
	{"the reply tells the context", false, contextIsLearnt},
	{"another context in the reply is an alias", false, contextAlias},
	{"a context that names another session is no alias", false, contextOfAnother},
	{"a task is bound to its tree and run", false, taskIsBound},
	{"the first run of a task keeps it", false, taskFirstWins},
	{"the first claim wins", false, claimFirstWins},
	{"a store's own binding never replaces a claim", false, claimBeforeSession},
	{"unclaim takes back what led to nothing", false, unclaim},
	{"unclaim spares what has a session", false, unclaimSpares},
	{"nothing is found that was never there", false, notFound},
	{"the secret stays", false, secret},
	{"the store answers a ping", false, ping},

	// What becomes of runs and sessions.
	{"an isolated session ends with its run", false, isolatedEnds},
	{"a worker ends with its last run", false, workerEndsWithLastRun},
	{"a shared session outlives its runs", false, sharedOutlives},
	{"a failed run counts as an error", false, failureCounts},
	{"an end is final", false, endIsFinal},
	{"suspended and back", false, suspendAndResume},
	{"a waiting run may end", false, suspendedRunEnds},
	{"two runs wait in one session", false, twoRunsWait},
	{"the end of a session ends what waits in it", false, endTakesWaiting},
	{"a run cannot wait in an ended session", false, noWaitingInEnded},
	{"a loss is corrected by the agent's own word", false, lostIsCorrected},
	{"a lost session's later run is not lost into it twice", false, lostTwice},
	{"a loss told with a stale gen is not believed", false, staleLoss},
	{"news of a task finds its run", false, newsByTask},
	{"news of no run only logs", false, newsWithoutRun},
	{"result and usage are kept", false, resultIsKept},

	// Time.
	{"an unrenewed run is lost", true, leaseLapses},
	{"a renewed run is not", true, leaseRenewed},
	{"renew never resurrects", true, renewNeverResurrects},
	{"renew takes any grant of the run", true, renewTakesAnyGrant},
	{"a lapse frees the place for the call that finds it", true, lapseFreesPlace},
	{"a lapsed run holds no place at its agent", true, lapseFreesAgent},
	{"a lapsed run's retry is a new run", true, lapseThenRetry},
	{"a detached run has its own time", true, detached},
	{"a run that has lapsed is detached no more", true, lateDetach},
	{"a resumed run is held again", true, resumedIsHeld},
	{"a session expires at its deadline", true, deadlineExpires},
	{"each call puts the deadline off", true, deadlineMoves},
	{"what runs is asked to stop at the deadline", true, deadlineWithRun},
	{"what waits expires with its session", true, deadlineTakesWaiting},
	{"only a bounded number lapses at once", true, lapseBound},
	{"lapses come in the order they were due", true, lapseOrder},
	{"times never go backwards in a log", true, timesAscend},

	// Steps in a session's life that somebody asks for.
	{"a step is taken or refused by kind and state", true, everyStep},
	{"the root session is never suspended", false, mainSteps},
	{"an unknown session takes no step", false, stepOfUnknown},
	{"a session is completed with all that runs in it", true, completeOpen},
	{"a session that is failed keeps reason and result", false, failByHand},
	{"a suspended session's runs yield their places", true, parkYields},
	{"a run resumed has its lease anew", true, parkedLease},
	{"a run that was suspended by a step keeps its grant", true, parkedGrant},
	{"an idle session is suspended, and resumed by a call", false, parkIdle},
	{"a call into a suspended session runs", false, callParked},
	{"a suspended run's agent may speak", false, parkedNews},
	{"a step settles what is due", true, stepSettles},
	{"the root session's end is the end of all", true, completeMain},
	{"a cancellation is asked for once", true, cancelTwice},
	{"steps stand in batches", false, stepsInBatch},

	// Ends, and what they mean to others.
	{"a result within the grace counts", true, graceCounts},
	{"after the grace the end is forced", true, graceEnds},
	{"all below an ended session is asked to stop", true, cascadeIsDeep},
	{"an idle session ends with its parent", false, cascadeThroughIdle},
	{"every end reaches those below", true, everyEndCascades},
	{"an abandoned session goes on", false, abandoned},
	{"a session being ended calls nobody", false, endingCallsNobody},
	{"a session being ended is followed by a new one", false, endingIsReplaced},
	{"a session being ended serves its own tasks", true, endingGoesOn},
	{"a session being ended ends with its last run", true, endingEndsWithLastRun},
	{"a loss spares what others hold", true, lossSparesOthers},
	{"a loss spares what waits", true, lossSparesWaiting},
	{"a lost shared session is corrected as a whole", true, lostSharedIsCorrected},
	{"a parent is told what its children left", false, resultsAreTold},
	{"a placeholder is a parent", false, placeholderIsTold},

	// Runs that outlive their session: calls that came to it after its end.
	{"a run in an ended session is stopped with the parent", true, lateOrphaned},
	{"a run in an ended session is stopped at its deadline", true, lateExpires},
	{"a run in an ended session has no time of before the end", true, lateWithoutTime},
	{"runs in an ended session end one by one", true, lateRunsEnd},
	{"a run in an ended session is spared with it", true, lateSpared},
	{"what came after the end is not its parent's", true, lateBelowLate},
	{"a run in a lost session may correct it while it is stopped", true, lateCorrects},

	// Sessions made ahead of their first call.
	{"a session made ahead holds its place", false, aheadHolds},
	{"the first call takes it over", true, aheadIsTakenOver},
	{"a shared session may be made ahead", false, aheadIsShared},
	{"an unused place comes free at the deadline", true, aheadExpires},
	{"a request makes one session", false, aheadOnce},
	{"a session made ahead is the tree's principal's", false, aheadPrincipal},
	{"a session made ahead is held to the caps of sessions", true, aheadCaps},
	{"a caller is known by its id", false, callerByID},

	// Settling, and what is made known.
	{"what is due is settled in any tree", true, settleAnyTree},
	{"settling is done in pieces", true, settleBound},
	{"a large cascade goes on at the next settling", true, settleCascade},
	{"who is to stop is told", true, notices},
	{"who is to stop is told, whatever the reason", true, noticesOfAllReasons},

	// The log.
	{"a plain call's log", false, plainLog},
	{"a crossed context is logged", false, crossedIsLogged},
	{"parallel runs in one context are logged", false, collapsedIsLogged},
	{"the order of an admission's events", false, admissionOrder},
	{"an event id is appended once", false, draftsOnce},
	{"payloads keep their bytes", false, payloadBytes},
	{"events bear turn and trace of their cause", false, originOfEvents},
	{"a failed op spoils no other", false, batch},
	{"ops of a batch see each other", false, batchInOrder},

	// Reading.
	{"events come in pages", false, eventPages},
	{"a large page is cut", false, eventPageCut},
	{"events are filtered", false, eventFilters},
	{"the last events", false, lastEvents},
	{"a viewer sees what it may read", false, visibility},
	{"trees come newest first, in pages", true, treePages},
	{"trees are filtered", true, treeFilters},
	{"a tree's summary", false, treeSummary},
	{"sessions come in spawn order", false, spawnOrder},
	{"sessions come in pages", false, sessionPages},
	{"a page of sessions is cut", false, sessionPageCut},
	{"a session is found by its context or task", false, sessionOf},
	{"the newest runs of a session are shown", false, newestRuns},

	// Many at once.
	{"racing admissions share 8 places", false, raceChildren},
	{"racing retries make one session", false, raceRetries},
	{"racing first calls make one tree", false, raceFirst},
	{"racing trees keep an agent's cap", true, raceConcurrency},
	{"racing claims have one winner", false, raceClaims},
	{"racing news are all logged", false, raceNews},
	{"racing secrets are one", true, raceSecret},
	{"racing requests make one session", false, raceRequest},
	{"racing sessions made ahead share 8 places", false, raceAhead},
	{"racing first calls take one session over", false, raceTakeover},
	{"racing sweepers settle once", true, raceSettle},
}

// clock is a clock that goes when it is told to. Its times are whole
// milliseconds, which every store keeps.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }
