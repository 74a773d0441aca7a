package wire

import "github.com/go-json-experiment/json/jsontext"

// jsonBody is a JSON body with the places in it that may be edited.
type jsonBody struct {
	src []byte
	// into is the object that contextId is a member of: message for sends, the
	// params for OpList; not found where there is none.
	into span
	// context is the contextId member, under whichever of its names.
	context member
	parts   []byte // of the message; nil if it has none
	// snake is set where a context that is added must be named context_id.
	snake bool
	// pushURL is where push notifications go; not found where that is unsaid.
	pushURL span
}

// messageParts implements body.
func (b *jsonBody) messageParts() []byte { return b.parts }

// edited implements body.
func (b *jsonBody) edited(e Edit) []byte {
	var room [2]edit
	edits := room[:0]
	if e.Context != nil && b.into.found() {
		if c, changes := b.contextEdit(*e.Context); changes {
			edits = append(edits, c)
		}
	}
	if e.PushURL != "" && b.pushURL.found() {
		if named, _ := unquote(b.pushURL.of(b.src)); named != e.PushURL {
			edits = append(edits, edit{b.pushURL, quote(e.PushURL)})
		}
	}
	if len(edits) == 0 {
		return b.src
	}
	if len(edits) == 2 && edits[1].start < edits[0].start {
		edits[0], edits[1] = edits[1], edits[0]
	}
	return apply(b.src, edits)
}

// contextEdit returns the edit after which the body names the context id, and
// whether it takes one. A context that is not named becomes the last member of
// its object (the last, because some peers want the "kind" of an object
// first); one that is to go takes its comma along.
func (b *jsonBody) contextEdit(id string) (e edit, changes bool) {
	named, _ := unquote(b.context.value.of(b.src))
	switch {
	case id == named:
		return edit{}, false
	case id == "":
		return edit{without(b.src, b.context), nil}, true
	case b.context.value.found():
		return edit{b.context.value, quote(id)}, true
	case b.snake:
		return appended(b.src, b.into, "context_id", id), true
	default:
		return appended(b.src, b.into, "contextId", id), true
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

// appended returns the insertion after which an object ends in a member with
// that string.
func appended(src []byte, object span, name, value string) edit {
	at := object.end - 1
	for isSpace(src[at-1]) {
		at--
	}
	var text []byte
	if src[at-1] != '{' {
		text = append(text, ',')
	}
	text = append(text, quote(name)...)
	text = append(text, ':')
	return edit{span{at, at}, append(text, quote(value)...)}
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s) // the error is invalid UTF-8, by then replaced
	return b
}

// isSpace reports whether c is whitespace between the tokens of JSON.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
