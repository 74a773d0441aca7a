package wire

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonBody is a JSON body with the places in it that may be edited.
type jsonBody struct {
	src []byte
	// into is the object that contextId is a member of: message for sends, the
	// params for OpList; not found where there is none.
	into span
	// context is the contextId member, under whichever of its names.
	context member
}

// edited implements editor. A context that is not named becomes the last
// member of its object (the last, because some peers want the "kind" of an
// object first); one that is to go takes its comma along.
func (b *jsonBody) edited(e Edit) []byte {
	if e.Context == nil || !b.into.found() {
		return b.src
	}
	id := *e.Context
	named, _ := unquote(b.context.value.of(b.src))
	switch {
	case id == named:
		return b.src
	case id == "":
		gone := without(b.src, b.context)
		return slices.Concat(b.src[:gone.start], b.src[gone.end:])
	case b.context.value.found():
		at := b.context.value
		return slices.Concat(b.src[:at.start], quote(id), b.src[at.end:])
	default:
		at, added := appended(b.src, b.into, "contextId", id)
		return slices.Concat(b.src[:at], added, b.src[at:])
	}
}

// edit replaces a span of a body by text; an empty span inserts.
type edit struct {
	span
	text []byte
}

// apply makes the edits, which must be sorted and must not overlap.
func apply(src []byte, edits []edit) []byte {
	size := len(src)
	for _, e := range edits {
		size += len(e.text) - (e.end - e.start)
	}
	out := make([]byte, 0, size)
	from := 0
	for _, e := range edits {
		out = append(out, src[from:e.start]...)
		out = append(out, e.text...)
		from = e.end
	}
	return append(out, src[from:]...)
}

// without returns what must go for m to leave its object: the member and the
// comma before it, or after it if it is the first.
func without(src []byte, m member) span {
	before := m.name.start
	for isSpace(src[before-1]) {
		before--
	}
	if src[before-1] == ',' {
		return span{before - 1, m.value.end}
	}
	after := m.value.end
	for isSpace(src[after]) {
		after++
	}
	if src[after] != ',' {
		return span{m.name.start, m.value.end}
	}
	after++
	for isSpace(src[after]) {
		after++
	}
	return span{m.name.start, after}
}

// appended returns what must be inserted where for an object to end in a
// member with that string.
func appended(src []byte, object span, name, value string) (at int, text []byte) {
	at = object.end - 1
	for isSpace(src[at-1]) {
		at--
	}
	if src[at-1] != '{' {
		text = append(text, ',')
	}
	text = append(text, quote(name)...)
	text = append(text, ':')
	return at, append(text, quote(value)...)
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s) // the error is invalid UTF-8, by then replaced
	return b
}

// isSpace reports whether c is whitespace between the tokens of JSON.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
