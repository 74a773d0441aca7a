package wire

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoField is one field of a protobuf message, by where it stands.
type protoField struct {
	num protowire.Number
	typ protowire.Type
	// at is all of the field, from its tag on; length is the prefix and value
	// the payload of one that is length-delimited.
	at, length, value span
	// number is the value of a varint, or the bits of a fixed64.
	number uint64
}

// protoReader is a cursor over the fields of one message.
//
//	for r := newProtoReader(src, in); r.next(); {
type protoReader struct {
	src      []byte
	pos, end int
	field    protoField // the current one
	err      error      // what ended the reading, nil for the end of the message
}

func newProtoReader(src []byte, in span) *protoReader {
	return &protoReader{src: src, pos: in.start, end: in.end}
}

// next reads the next field and reports whether there is one.
func (r *protoReader) next() bool {
	if r.err != nil || r.pos >= r.end {
		return false
	}
	b := r.src[r.pos:r.end]
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return r.fail(tag)
	}
	if num > protowire.MaxValidNumber {
		// Some parsers cut a number to what fits and find another field.
		r.err = errSyntax
		return false
	}
	f := protoField{num: num, typ: typ, at: span{start: r.pos}}
	size := 0
	switch typ {
	case protowire.BytesType:
		length, n := protowire.ConsumeVarint(b[tag:])
		switch {
		case n < 0:
			size = n
		case length > uint64(len(b)-tag-n):
			r.err = errEndsEarly
			return false
		default:
			size = n + int(length)
			f.length = span{r.pos + tag, r.pos + tag + n}
			f.value = span{f.length.end, r.pos + tag + size}
		}
	case protowire.VarintType:
		f.number, size = protowire.ConsumeVarint(b[tag:])
	case protowire.Fixed64Type:
		f.number, size = protowire.ConsumeFixed64(b[tag:])
	default:
		size = protowire.ConsumeFieldValue(num, typ, b[tag:])
	}
	if size < 0 {
		return r.fail(size)
	}
	r.pos += tag + size
	f.at.end = r.pos
	r.field = f
	return true
}

// The ways in which bytes are not protobuf. The words of protowire are not used
// because they are not the same in every build.
var (
	errEndsEarly = errors.New("it ends early")
	errSyntax    = errors.New("syntax error")
)

// fail ends the reading at the field that starts at pos, with an error code of
// protowire.
func (r *protoReader) fail(code int) bool {
	r.err = errSyntax
	if errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) {
		r.err = errEndsEarly
	}
	return false
}
