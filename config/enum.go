package config

import "log/slog"

// enumeration is implemented by the string types below. The decoder, Validate
// and Schema all take the permitted values from here.
type enumeration interface{ values() []string }

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// ContextIDs says who makes the context ids that an agent sees.
type ContextIDs string

// Values of [ContextIDs].
const (
	ContextIDsSidecar     ContextIDs = "sidecar"     // the sidecar, for every call
	ContextIDsAgent       ContextIDs = "agent"       // the agent: the id in its reply is learned
	ContextIDsPassthrough ContextIDs = "passthrough" // nobody: record and cap only
)

func (ContextIDs) values() []string {
	return texts(ContextIDsSidecar, ContextIDsAgent, ContextIDsPassthrough)
}

// Kind is the kind of session that a call to an agent makes.
type Kind string

// Values of [Kind].
const (
	KindBranch Kind = "branch" // continuity; may suspend and spawn
	KindWorker Kind = "worker" // stateless leaf
)

func (Kind) values() []string { return texts(KindBranch, KindWorker) }

// Inherit is how much of its parent's view a new session may read. The zero
// value means the kind's default: full for a branch, none for a worker.
type Inherit string

// Values of [Inherit].
const (
	InheritFull    Inherit = "full"
	InheritSummary Inherit = "summary"
	InheritNone    Inherit = "none"
)

func (Inherit) values() []string { return texts(InheritFull, InheritSummary, InheritNone) }

// Join says when a child's events become visible to its parent.
type Join string

// Values of [Join].
const (
	JoinExplicit Join = "explicit" // when the API is told so
	JoinOnReturn Join = "onReturn" // when the call returns
)

func (Join) values() []string { return texts(JoinExplicit, JoinOnReturn) }

// Busy is what becomes of a second run in one shared context.
type Busy string

// Values of [Busy].
const (
	BusyAllow  Busy = "allow"
	BusyQueue  Busy = "queue"
	BusyReject Busy = "reject"
)

func (Busy) values() []string { return texts(BusyAllow, BusyQueue, BusyReject) }

// OnParentEnd is what becomes of a live session whose parent ends.
type OnParentEnd string

// Values of [OnParentEnd].
const (
	OnParentEndCancel  OnParentEnd = "cancel"
	OnParentEndAbandon OnParentEnd = "abandon"
)

func (OnParentEnd) values() []string { return texts(OnParentEndCancel, OnParentEndAbandon) }

// Refuse is the form in which a caller sees a refusal.
type Refuse string

// Values of [Refuse].
const (
	RefuseError Refuse = "error" // a protocol error
	RefuseTask  Refuse = "task"  // a FAILED task whose text says why
)

func (Refuse) values() []string { return texts(RefuseError, RefuseTask) }

// PushMode is what becomes of the URLs that an agent is to send push
// notifications to.
type PushMode string

// Values of [PushMode].
const (
	PushPass  PushMode = "pass"  // they pass as they came: notifications bypass the sidecar
	PushRelay PushMode = "relay" // the sidecar puts its own in their place, and relays and records what comes
)

func (PushMode) values() []string { return texts(PushPass, PushRelay) }

// LineageTold is what an agent is told of the tree that its call belongs to.
type LineageTold string

// Values of [LineageTold].
const (
	LineageFull LineageTold = "full"
	LineageRoot LineageTold = "root" // the two context headers only
	LineageNone LineageTold = "none"
)

func (LineageTold) values() []string { return texts(LineageFull, LineageRoot, LineageNone) }

// AcrossTurns says whether a branch sees the events of other turns.
type AcrossTurns string

// Values of [AcrossTurns].
const (
	AcrossTurnsFiltered AcrossTurns = "filtered" // by the same rule as its own turn's
	AcrossTurnsVisible  AcrossTurns = "visible"  // always, as ADK does
)

func (AcrossTurns) values() []string { return texts(AcrossTurnsFiltered, AcrossTurnsVisible) }

// OnStoreDown is the policy while the store cannot be reached.
type OnStoreDown string

// Values of [OnStoreDown].
const (
	OnStoreDownLocal  OnStoreDown = "local"  // calls go on, unrecorded, within the caps by this sidecar's own counts
	OnStoreDownRefuse OnStoreDown = "refuse" // calls are refused
)

func (OnStoreDown) values() []string { return texts(OnStoreDownLocal, OnStoreDownRefuse) }

// RecordContent is how much of a message's content is kept.
type RecordContent string

// Values of [RecordContent].
const (
	RecordContentText RecordContent = "text" // text and data; files by name, type, size and hash
	RecordContentFull RecordContent = "full"
	RecordContentNone RecordContent = "none"
)

func (RecordContent) values() []string {
	return texts(RecordContentText, RecordContentFull, RecordContentNone)
}

// LogLevel is the least severe level that is logged. It is a [slog.Leveler].
type LogLevel string

// Values of [LogLevel].
const (
	LogLevelDebug LogLevel = "debug"
	LogLevelInfo  LogLevel = "info"
	LogLevelWarn  LogLevel = "warn"
	LogLevelError LogLevel = "error"
)

func (LogLevel) values() []string {
	return texts(LogLevelDebug, LogLevelInfo, LogLevelWarn, LogLevelError)
}

// Level implements [slog.Leveler]. An unknown level counts as info.
func (l LogLevel) Level() slog.Level {
	switch l {
	case LogLevelDebug:
		return slog.LevelDebug
	case LogLevelWarn:
		return slog.LevelWarn
	case LogLevelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// LogFormat is the form of a log line.
type LogFormat string

// Values of [LogFormat].
const (
	LogFormatJSON LogFormat = "json"
	LogFormatText LogFormat = "text"
)

func (LogFormat) values() []string { return texts(LogFormatJSON, LogFormatText) }
