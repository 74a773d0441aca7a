package lineage

import (
	"slices"
	"strconv"
	"strings"
)

// Token is one branch segment of a tree, numbered from 1 in the order of
// spawning and never used again in that tree.
type Token uint32

// Tokens is a set of tokens in ascending order, without repeats. Nil is the
// empty set.
type Tokens []Token

// MarshalJSON writes the empty set as [], so that readers need not know null.
func (t Tokens) MarshalJSON() ([]byte, error) {
	return []byte("[" + t.String() + "]"), nil
}

// With returns t with one more token that is larger than all it holds. The
// result shares no memory with t.
func (t Tokens) With(next Token) Tokens {
	return append(slices.Clone(t), next)
}

// In reports whether t ⊆ other.
func (t Tokens) In(other Tokens) bool {
	if len(t) > len(other) {
		return false
	}
	i := 0
	for _, tok := range t {
		for i < len(other) && other[i] < tok {
			i++
		}
		if i == len(other) || other[i] != tok {
			return false
		}
		i++
	}
	return true
}

// String is the set as comma-separated numbers, the spelling that stores keep.
func (t Tokens) String() string {
	var b strings.Builder
	for i, tok := range t {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(uint64(tok), 10))
	}
	return b.String()
}

// ParseTokens is the inverse of [Tokens.String]. What is no number is left out.
func ParseTokens(s string) Tokens {
	if s == "" {
		return nil
	}
	var t Tokens
	for part := range strings.SplitSeq(s, ",") {
		if n, err := strconv.ParseUint(part, 10, 32); err == nil {
			t = append(t, Token(n))
		}
	}
	return t
}

// Visible reports whether a viewer that may read the tokens read sees an event
// stamped with stamp: every token of the stamp is one that it may read. So
// siblings are invisible to each other, ancestors visible, descendants not,
// and an event without a stamp is visible to all.
func Visible(stamp, read Tokens) bool { return stamp.In(read) }

// SpawnTokens are the stamp and the read set of a session spawned under a
// parent with the given ones, when the tree's next token is next.
func SpawnTokens(stamp, read Tokens, next Token, inherit Inherit) (childStamp, childRead Tokens) {
	if inherit == InheritFull {
		return stamp.With(next), read.With(next)
	}
	return Tokens{next}, Tokens{next}
}

// Label is the branch label of the ordinal-th child of a session: the parent's
// label, a dot, and agent@ordinal. Agent names are DNS labels, so a label has
// exactly one segment per level.
func Label(parent, agent string, ordinal int) string {
	return parent + "." + agent + "@" + strconv.Itoa(ordinal)
}
