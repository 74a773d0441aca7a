package wire

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// WithContextID returns the body with the context it names set to id. Only the
// bytes of that one value change; if the body names none, a member contextId
// becomes the last of its object (the last, because some peers want the "kind"
// of an object first). An empty id removes the member and its comma.
//
// If nothing needs to change, the body itself is returned: the same slice.
// That includes requests with no place for a context, such as OpGet. The id
// must pass CheckID; invalid UTF-8 in it is replaced.
func (r *Request) WithContextID(id string) []byte {
	switch {
	case id == r.ContextID || !r.into.found():
		return r.body
	case id == "":
		gone := without(r.body, r.context)
		return slices.Concat(r.body[:gone.start], r.body[gone.end:])
	case r.context.value.found():
		at := r.context.value
		return slices.Concat(r.body[:at.start], quote(id), r.body[at.end:])
	default:
		at, added := appended(r.body, r.into, "contextId", id)
		return slices.Concat(r.body[:at], added, r.body[at:])
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
