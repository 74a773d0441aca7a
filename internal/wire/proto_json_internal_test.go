package wire

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestQuotedLen: the room that is made for a string is what it takes, to the byte.
func TestQuotedLen(t *testing.T) {
	t.Parallel()
	check := func(t interface{ Errorf(string, ...any) }, s []byte) {
		quoted, _ := jsontext.AppendQuote(nil, s) // the error is invalid UTF-8, by then replaced
		if got := quotedLen(s); got != len(quoted) {
			t.Errorf("quotedLen(%q) = %d, want %d as in %s", s, got, len(quoted), quoted)
		}
	}
	for c := range 256 {
		check(t, []byte{byte(c)})
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		check(t, []byte(rapid.String().Draw(t, "text")))
	})
}
