package wire

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of google.protobuf.Struct, of the entries of its map, and of Value
// and ListValue.
const (
	structEntry protowire.Number = 1
	entryKey    protowire.Number = 1
	entryValue  protowire.Number = 2

	valueNull   protowire.Number = 1
	valueNumber protowire.Number = 2
	valueString protowire.Number = 3
	valueBool   protowire.Number = 4
	valueStruct protowire.Number = 5
	valueList   protowire.Number = 6

	listValue protowire.Number = 1
)

// maxValueDepth is how deep values may be nested. What lies deeper is written
// as null; most parsers of protobuf go no further than 100 messages, of which a
// level of nesting takes three.
const maxValueDepth = 100

// structure writes a google.protobuf.Struct. Its keys are sorted, because their
// order on the wire means nothing and changes from one encoding to the next. Of
// a key that occurs twice the last one counts.
func (j *protoJSON) structure(src []byte, depth int) {
	type entry struct{ key, value []byte }
	var entries []entry
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		if r.field.num == structEntry && r.field.typ == protowire.BytesType {
			key, value, err := protoEntry(r.field.value.of(src))
			j.fail(err)
			if !j.room((len(entries) + 1) * entryCost) {
				return
			}
			entries = append(entries, entry{key, value})
		}
	}
	j.fail(r.err)
	held := len(entries) * entryCost
	j.cost += held
	defer func() { j.cost -= held }()
	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })

	j.out = append(j.out, '{')
	first := true
	for i, e := range entries {
		if i+1 < len(entries) && bytes.Equal(e.key, entries[i+1].key) {
			continue
		}
		if !first {
			j.out = append(j.out, ',')
		}
		first = false
		j.string(e.key)
		j.out = append(j.out, ':')
		j.dynamic(e.value, depth-1)
		if j.err != nil {
			return
		}
	}
	j.out = append(j.out, '}')
}

// protoEntry returns the key and the value of an entry of a map.
func protoEntry(src []byte) (key, value []byte, err error) {
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		switch {
		case r.field.typ != protowire.BytesType:
		case r.field.num == entryKey:
			key = r.field.value.of(src)
		case r.field.num == entryValue:
			value = r.field.value.of(src)
		}
	}
	return key, value, r.err
}

// dynamic writes a google.protobuf.Value: what the last of its fields says.
// One without any, and a number that JSON has none for, are written as null.
func (j *protoJSON) dynamic(src []byte, depth int) {
	if !j.room(len("null,")) {
		return
	}
	var last protoField
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		if r.field.num <= valueList && r.field.typ == valueType(r.field.num) {
			last = r.field
		}
	}
	j.fail(r.err)
	payload := last.value.of(src)
	switch {
	case depth <= 0:
		j.out = append(j.out, "null"...)
	case last.num == valueNumber:
		j.number(math.Float64frombits(last.number))
	case last.num == valueString:
		j.string(payload)
	case last.num == valueBool:
		j.out = strconv.AppendBool(j.out, protowire.DecodeBool(last.number))
	case last.num == valueStruct:
		j.structure(payload, depth)
	case last.num == valueList:
		j.list(payload, depth-1)
	default:
		j.out = append(j.out, "null"...)
	}
}

// valueType is the wire type of a field of Value.
func valueType(num protowire.Number) protowire.Type {
	switch num {
	case valueNull, valueBool:
		return protowire.VarintType
	case valueNumber:
		return protowire.Fixed64Type
	default:
		return protowire.BytesType
	}
}

// list writes a google.protobuf.ListValue.
func (j *protoJSON) list(src []byte, depth int) {
	j.out = append(j.out, '[')
	first := true
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		if r.field.num != listValue || r.field.typ != protowire.BytesType {
			continue
		}
		if !first {
			j.out = append(j.out, ',')
		}
		first = false
		j.dynamic(r.field.value.of(src), depth)
		if j.err != nil {
			return
		}
	}
	j.fail(r.err)
	j.out = append(j.out, ']')
}

// number writes a double.
func (j *protoJSON) number(n float64) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		j.out = append(j.out, "null"...)
		return
	}
	j.out = append(j.out, jsontext.Float(n).String()...)
}

// The seconds that a Timestamp may have: the years 1 to 9999.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

// timestamp writes a google.protobuf.Timestamp as ProtoJSON does: RFC 3339 in
// UTC, with 0, 3, 6 or 9 digits of fractions. One out of range becomes null.
func (j *protoJSON) timestamp(src []byte) {
	var seconds, nanos int64
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		switch {
		case r.field.typ != protowire.VarintType:
		case r.field.num == 1:
			seconds = int64(r.field.number)
		case r.field.num == 2:
			nanos = int64(int32(r.field.number))
		}
	}
	j.fail(r.err)
	if seconds < minSeconds || seconds > maxSeconds || nanos < 0 || nanos >= 1e9 {
		j.out = append(j.out, "null"...)
		return
	}
	layout := "2006-01-02T15:04:05.000000000Z"
	switch {
	case nanos == 0:
		layout = "2006-01-02T15:04:05Z"
	case nanos%1e6 == 0:
		layout = "2006-01-02T15:04:05.000Z"
	case nanos%1e3 == 0:
		layout = "2006-01-02T15:04:05.000000Z"
	}
	j.out = append(j.out, '"')
	j.out = time.Unix(seconds, nanos).UTC().AppendFormat(j.out, layout)
	j.out = append(j.out, '"')
}

// inner returns the Struct that is in a DataPart of 0.3.
func (j *protoJSON) inner(src []byte) []byte {
	member := protoMember{num: 1, kind: asStruct}
	var f found
	r := newProtoReader(src, span{0, len(src)})
	for r.next() {
		if r.field.num == member.num && r.field.typ == protowire.BytesType {
			f.add(&member, r.field, src)
		}
	}
	j.fail(r.err)
	return f.bytes
}
