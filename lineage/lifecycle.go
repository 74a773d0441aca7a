package lineage

import (
	"fmt"
	"time"
)

// DefaultGrace is how long the open work of a session that is to end may go on
// once its cancellation has been asked for. A result that comes within it
// counts; what is still open after it is ended by force.
const DefaultGrace = 30 * time.Second

// Verb is a step in a session's life that somebody asks for, as against one
// that its agent's answers bring about.
type Verb string

// The verbs, as the API spells them in its paths.
const (
	VerbComplete Verb = "complete" // it has done its work: with a result
	VerbFail     Verb = "fail"     // it has not
	VerbSuspend  Verb = "suspend"  // it waits until it is resumed, and yields the places of its calls (not its own)
	VerbResume   Verb = "resume"   // it goes on
	VerbCancel   Verb = "cancel"   // its agent is asked to stop, and made to after the grace
)

// Conflict is the error of a [Verb] that a session's state or kind forbids.
// Nothing was changed.
type Conflict struct {
	Verb    Verb
	Session string // id
	Kind    Kind
	State   State
	Why     string
}

// Error says in words why not.
func (c *Conflict) Error() string {
	return fmt.Sprintf("session %s is %s and cannot %s: %s", c.Session, c.State, c.Verb, c.Why)
}

// Check returns nil if s may take the step v. waits says that a run in it
// waits for an answer to its agent (input or authorization), as against one
// that was suspended by [VerbSuspend].
//
//	          active            suspended         terminal
//	complete  yes               yes               no
//	fail      yes               yes               no
//	suspend   branch            no                no
//	resume    no                branch, no waits  no
//	cancel    yes               yes               no
func (v Verb) Check(s *Session, waits bool) *Conflict {
	no := func(why string) *Conflict {
		return &Conflict{Verb: v, Session: s.ID, Kind: s.Kind, State: s.State, Why: why}
	}
	switch {
	case s.State.Terminal():
		return no("it has ended")
	case v != VerbSuspend && v != VerbResume:
		return nil
	case s.Kind != Branch:
		return no("only a branch can be suspended and resumed, and this is a " + string(s.Kind) + " session")
	case s.Ending != "":
		return no("it is being ended")
	case v == VerbSuspend && s.State == Suspended:
		return no("it is suspended already")
	case v == VerbResume && s.State != Suspended:
		return no("it is not suspended")
	case v == VerbResume && waits:
		return no("its task waits for an answer: send that to the task")
	}
	return nil
}
