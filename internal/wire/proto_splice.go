package wire

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoBody is a protobuf message with the places in it that may be edited.
type protoBody struct {
	src     []byte
	context protoPlace // has no number where there is no place for a context
	pushURL protoPlace
	message []byte // of a send; nil otherwise
	version Version
}

// protoPlace is where a string field stands, or may be put.
type protoPlace struct {
	around []protoField     // the messages that it is in, from the outermost
	num    protowire.Number // of a field to add
	field  protoField       // its value is not found if there is none
}

// messageParts implements body.
func (b *protoBody) messageParts() []byte {
	if b.message == nil {
		return nil
	}
	parts, err := protoParts(b.version, b.message)
	if err != nil {
		return nil // it is not protobuf, which the agent will say, or too long for a record
	}
	return parts
}

// edited implements body. A context that is not named becomes the last field
// of its message.
func (b *protoBody) edited(e Edit) []byte {
	var edits []edit
	if e.Context != nil && b.context.num > 0 {
		edits = b.context.set(b.src, *e.Context)
	}
	if e.PushURL != "" && len(b.pushURL.field.value.of(b.src)) > 0 {
		edits = append(edits, b.pushURL.set(b.src, e.PushURL)...)
	}
	if len(edits) == 0 {
		return b.src
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	return apply(b.src, edits)
}

// set returns the edits for the field to hold that string, "" removing it; none
// if it does.
func (p protoPlace) set(src []byte, to string) []edit {
	field := p.field
	if to == string(field.value.of(src)) {
		return nil
	}
	to = strings.ToValidUTF8(to, "\uFFFD")
	switch {
	case to == "":
		return p.replaced(field.at, nil)
	case field.value.found():
		return p.replaced(span{field.length.start, field.value.end}, protowire.AppendString(nil, to))
	}
	end := len(src)
	if n := len(p.around); n > 0 {
		end = p.around[n-1].value.end
	}
	return p.replaced(span{end, end}, protowire.AppendString(protowire.AppendTag(nil, p.num, protowire.BytesType), to))
}

// replaced returns the edit of a span by text, and those of the lengths around
// it, from the innermost, whose own size counts for the next.
func (p protoPlace) replaced(was span, text []byte) []edit {
	edits := []edit{{was, text}}
	grown := len(text) - (was.end - was.start)
	for _, m := range slices.Backward(p.around) {
		prefix := protowire.AppendVarint(nil, uint64(m.value.end-m.value.start+grown))
		edits = append(edits, edit{m.length, prefix})
		grown += len(prefix) - (m.length.end - m.length.start)
	}
	return edits
}
