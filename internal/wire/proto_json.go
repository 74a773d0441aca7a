package wire

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// protoJSON writes protobuf messages as JSON, by a schema. It is as tolerant as
// all that is only observed: a field that is unknown, or whose wire type is
// not its own, is skipped, and invalid UTF-8 is replaced. Errors are bytes that
// are not protobuf, and a message that becomes too long. The first one is kept;
// what is written from there on means nothing.
type protoJSON struct {
	out  []byte
	max  int // what out may hold and elements and entries may cost, in bytes
	cost int // of those
	err  error
}

// ErrTooLong says that an answer is not read because that would take far more
// room than its size suggests: a few bytes of protobuf can stand for a lot.
var ErrTooLong = errors.New("response is too long to be read")

const (
	// minRoom is what any message may become. No message that means something
	// grows much by being JSON, but a short one may be all escapes.
	minRoom = 16 << 20
	// elementCost and entryCost are what it takes to keep an element of an array
	// once it is read, and an entry of a Struct until it is written.
	elementCost = 256
	entryCost   = 48
)

// newProtoJSON returns a writer for a message, with room for its size and more.
func newProtoJSON(msg []byte, more int) *protoJSON {
	return &protoJSON{out: make([]byte, 0, len(msg)+more), max: max(2*len(msg), minRoom)}
}

// room reports whether there is room for n more bytes.
func (j *protoJSON) room(n int) bool {
	if j.err == nil && len(j.out)+j.cost+n > j.max {
		j.err = ErrTooLong
	}
	return j.err == nil
}

// found is what a field of a message holds.
type found struct {
	set    bool
	number uint64
	bytes  []byte
	owned  bool // bytes is a copy, and may be appended to
}

// message writes a message. Its fields are looked up first and written in the
// order of the schema: the last one counts.
func (j *protoJSON) message(src []byte, schema protoSchema) {
	var fields [maxMembers]found
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		i, m := schema.find(r.field)
		if m == nil {
			continue
		}
		if m.oneof && !fields[i].set {
			for other := range schema {
				if schema[other].oneof {
					fields[other] = found{}
				}
			}
		}
		fields[i].add(m, r.field, src)
	}
	j.fail(r.err)

	j.out = append(j.out, '{')
	first := true
	for i := range schema {
		m, f := &schema[i], &fields[i]
		if !f.set {
			continue
		}
		if !first {
			j.out = append(j.out, ',')
		}
		first = false
		j.out = append(append(append(j.out, '"'), m.name...), '"', ':')
		if m.many {
			j.array(src, m)
		} else {
			j.value(m, f)
		}
	}
	j.out = append(j.out, '}')
}

// find returns the member that a field is, and its index, or nil.
func (s protoSchema) find(f protoField) (int, *protoMember) {
	for i := range s {
		if s[i].num == f.num && s[i].kind.wireType() == f.typ {
			return i, &s[i]
		}
	}
	return 0, nil
}

// add adds an occurrence of the field.
func (f *found) add(m *protoMember, field protoField, src []byte) {
	payload := field.value.of(src)
	switch {
	case !f.set || m.many || !m.kind.merges():
		*f = found{set: true, number: field.number, bytes: payload}
	case f.owned:
		f.bytes = append(f.bytes, payload...)
	default:
		f.bytes = append(append(make([]byte, 0, 2*(len(f.bytes)+len(payload))), f.bytes...), payload...)
		f.owned = true
	}
}

// array writes all occurrences of the field in a message.
func (j *protoJSON) array(src []byte, m *protoMember) {
	j.out = append(j.out, '[')
	first := true
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		if r.field.num != m.num || r.field.typ != m.kind.wireType() {
			continue
		}
		if !j.room(elementCost) {
			return
		}
		j.cost += elementCost
		if !first {
			j.out = append(j.out, ',')
		}
		first = false
		j.value(m, &found{number: r.field.number, bytes: r.field.value.of(src)})
	}
	j.fail(r.err)
	j.out = append(j.out, ']')
}

// value writes one value of the field.
func (j *protoJSON) value(m *protoMember, f *found) {
	if j.err != nil {
		return
	}
	switch m.kind {
	case asBase64:
		j.base64(f.bytes)
	case asFileBytes:
		j.fileBytes(f.bytes)
	case asNumber:
		j.out = strconv.AppendInt(j.out, int64(int32(f.number)), 10)
	case asBool:
		j.out = strconv.AppendBool(j.out, protowire.DecodeBool(f.number))
	case asMessage:
		j.message(f.bytes, m.of)
	case asTimestamp:
		j.timestamp(f.bytes)
	case asStruct:
		j.structure(f.bytes, maxValueDepth)
	case asValue:
		j.dynamic(f.bytes, maxValueDepth)
	case asInner:
		j.structure(j.inner(f.bytes), maxValueDepth)
	default:
		j.string(f.bytes)
	}
}

// maxQuoted is the most that a byte of a string becomes, as \u0001.
const maxQuoted = 6

// string writes a string.
func (j *protoJSON) string(s []byte) {
	// How long it becomes matters only where it might not fit.
	if n := maxQuoted*len(s) + len(`""`); len(j.out)+j.cost+n > j.max {
		if n = quotedLen(s); !j.room(n) {
			return
		}
		j.out = slices.Grow(j.out, n)
	}
	j.out, _ = jsontext.AppendQuote(j.out, s) // the error is invalid UTF-8, by then replaced
}

// quotedLen is how long a string is as JSON.
func quotedLen(s []byte) int {
	n := len(`""`)
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			i++
			n += int(quotedASCII[c])
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		i += size
		n += utf8.RuneLen(r) // that of a replacement, too
	}
	return n
}

// quotedASCII is how long the ASCII characters are in a JSON string.
var quotedASCII = func() (all [utf8.RuneSelf]uint8) {
	for c := range all {
		switch c {
		case '"', '\\', '\b', '\f', '\n', '\r', '\t':
			all[c] = uint8(len(`\n`))
		default:
			all[c] = 1
			if c < ' ' {
				all[c] = maxQuoted
			}
		}
	}
	return all
}()

// base64 writes bytes.
func (j *protoJSON) base64(b []byte) {
	if !j.room(base64.StdEncoding.EncodedLen(len(b))) {
		return
	}
	j.out = append(j.out, '"')
	j.out = base64.StdEncoding.AppendEncode(j.out, b)
	j.out = append(j.out, '"')
}

// fileBytes writes the file_with_bytes of 0.3. Its SDKs for Go and Python put
// the base64 that their JSON has there, as it is; others, such as a2a-go v2
// where it speaks 0.3, the bytes that it stands for. So what is base64 to the
// letter is taken for it.
func (j *protoJSON) fileBytes(b []byte) {
	if len(b) == 0 || !isBase64(b) {
		j.base64(b)
		return
	}
	if !j.room(len(b)) {
		return
	}
	j.out = append(j.out, '"')
	j.out = append(j.out, b...)
	j.out = append(j.out, '"')
}

// isBase64 reports whether b is padded base64, in the standard alphabet and
// without line breaks.
func isBase64(b []byte) bool {
	if len(b)%4 != 0 {
		return false
	}
	padding := 0
	for padding < 2 && padding < len(b) && b[len(b)-1-padding] == '=' {
		padding++
	}
	for _, c := range b[:len(b)-padding] {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '+', c == '/':
		default:
			return false
		}
	}
	return true
}

// fail keeps the first error.
func (j *protoJSON) fail(err error) {
	if j.err == nil {
		j.err = err
	}
}
