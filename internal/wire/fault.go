package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON-RPC 2.0 §5.1 codes of an Error.
const (
	CodeParse   = -32700 // the body is not one JSON text
	CodeInvalid = -32600 // it is, but not a request with one reading
)

// Error says why a request body is refused, and carries what an answer to it
// needs. It names places, never values: it is safe to log and to send back.
type Error struct {
	// Code is CodeParse or CodeInvalid.
	Code int
	// ID is the raw JSON-RPC id to echo: a string or a number, nil if it could
	// not be read, or in another binding. It aliases the body.
	ID []byte
	// Op and Version are read as far as the body allows, so that a streaming
	// method gets its error as an event.
	Op      Op
	Version Version
	// Foreign reports what no agent takes for a call, so that it may pass
	// through: a JSON object without the jsonrpc or method of a JSON-RPC
	// envelope, in whatever case; for HTTP+JSON, a path that is none of A2A.
	Foreign bool
	// What is the fault in words, such as `duplicate key "contextId" in
	// params.message`.
	What string
}

func (e *Error) Error() string { return e.What }

// MaxID is the most bytes that an id (of a context, a task, a message) may
// have.
const MaxID = 512

// CheckID returns an error if value cannot be an id: it is empty, longer than
// MaxID, not UTF-8, begins or ends with a space, which no header carries, or
// holds control characters, which would forge log lines and headers. The error
// calls it name and does not quote the value.
func CheckID(name, value string) error {
	if what := idFault(value); what != "" {
		return errors.New(name + " " + what)
	}
	return nil
}

// idFault says why value cannot be an id, or "".
func idFault(value string) string {
	switch {
	case value == "":
		return "is empty"
	case len(value) > MaxID:
		return fmt.Sprintf("is longer than %d bytes", MaxID)
	case !utf8.ValidString(value):
		return "is not valid UTF-8"
	case strings.ContainsFunc(value, unicode.IsControl):
		return "contains a control character"
	case strings.TrimSpace(value) != value:
		// A header could not carry it: the next hop would read another id.
		return "begins or ends with a space"
	}
	return ""
}

// describe turns an error of jsontext into words without quoting the input
// (beyond the names of keys), and the JSON-RPC code for it.
func describe(what string, err error) (code int, text string) {
	if errors.Is(err, io.EOF) {
		return CodeParse, what + " is empty"
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return CodeParse, what + " is not JSON"
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		parent := syntax.JSONPointer.Parent()
		return CodeInvalid, fmt.Sprintf("duplicate key %s%s", quoteKey(syntax.JSONPointer.LastToken()), inside(place(parent)))
	}
	fault := "syntax error"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		fault = "it ends early"
	}
	return CodeParse, fmt.Sprintf("%s is not JSON: %s at byte %d%s", what, fault, syntax.ByteOffset, inside(place(syntax.JSONPointer)))
}

// maxShown bounds how much of a key or a place an error repeats.
const maxShown = 80

// quoteKey quotes the name of a key for an error.
func quoteKey(key string) string {
	if len(key) > maxShown {
		key = strings.ToValidUTF8(key[:maxShown], "") + "…"
	}
	return fmt.Sprintf("%q", key)
}

// place spells a JSON pointer the way the documentation of A2A does:
// params.message.parts.0.
func place(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if b.Len() > maxShown {
			b.WriteString(".…")
			break
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		quoted := quoteKey(token)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// inside names the place of a fault, the top level being no place.
func inside(place string) string {
	if place == "" {
		return ""
	}
	return " in " + place
}
