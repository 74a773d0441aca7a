package wire_test

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// readAnswer reads an answer that must be read.
func readAnswer(tb testing.TB, v wire.Version, op wire.Op, msg []byte) wire.Update {
	tb.Helper()
	u, err := wire.ReadProtoResponse(v, op, msg)
	if err != nil {
		tb.Fatalf("ReadProtoResponse(%v %v, %x) = %v, want no error", v, op, msg, err)
	}
	return u
}

// double is a Value with a number.
func double(f float64) pb {
	return protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), math.Float64bits(f))
}

// entry is an entry of a Struct.
func entry(key string, value pb) pb { return pb{}.msg(1, pb{}.str(1, key).msg(2, value)) }

// join puts messages one after the other, which merges them.
func join(all ...pb) pb {
	var out pb
	for _, b := range all {
		out = append(out, b...)
	}
	return out
}

func TestProtoValues(t *testing.T) {
	t.Parallel()
	deep := pb{}.str(3, "deep")
	for range 1000 {
		deep = pb{}.msg(6, pb{}.msg(1, deep))
	}
	for _, tt := range []struct {
		name   string
		fields pb // of a Struct
		want   string
	}{
		{"empty", nil, `{}`},
		{"sorted", join(entry("b", double(1)), entry("a", double(2))), `{"a":2,"b":1}`},
		{"of a key that is there twice, the last one", join(entry("a", double(1)), entry("b", nil), entry("a", double(2))), `{"a":2,"b":null}`},
		{"null", entry("a", pb{}.num(1, 0)), `{"a":null}`},
		{"nothing", entry("a", nil), `{"a":null}`},
		{"entry without a value", pb{}.msg(1, pb{}.str(1, "a")), `{"a":null}`},
		{"entry without anything", pb{}.msg(1, nil), `{"":null}`},
		{"numbers", join(entry("a", double(1e21)), entry("b", double(-0.5)), entry("c", double(9007199254740993))), `{"a":1e+21,"b":-0.5,"c":9007199254740992}`},
		{"numbers that JSON has not", join(entry("a", double(math.NaN())), entry("b", double(math.Inf(1)))), `{"a":null,"b":null}`},
		{"booleans", join(entry("a", pb{}.num(4, 1)), entry("b", pb{}.num(4, 0)), entry("c", pb{}.num(4, 2))), `{"a":true,"b":false,"c":true}`},
		{"strings", entry("a\"\n", pb{}.str(3, "\xffé<")), `{"a\"\n":"` + "\uFFFD" + `é<"}`},
		{"of two kinds, the last one", entry("a", pb{}.str(3, "x").num(4, 1)), `{"a":true}`},
		{"of another wire type", entry("a", pb{}.str(4, "x")), `{"a":null}`},
		{"unknown fields", join(pb{}.num(9, 1), entry("a", pb{}.num(4, 1).str(9, "x"))), `{"a":true}`},
		{"nested", entry("a", pb{}.msg(5, entry("b", pb{}.msg(6, pb{}.msg(1, double(1)).msg(1, pb{}.msg(6, nil)))))), `{"a":{"b":[1,[]]}}`},
		{"too deep", entry("a", deep), `{"a":` + strings.Repeat("[", 99) + "null" + strings.Repeat("]", 99) + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			msg := pb{}.msg(1, pb{}.str(1, "t").msg(6, tt.fields))
			if got := string(readAnswer(t, wire.V10, wire.OpSend, msg).Metadata); got != tt.want {
				t.Errorf("metadata of %x = %s, want %s", tt.fields, got, tt.want)
			}
		})
	}
}

func TestProtoTimestamps(t *testing.T) {
	t.Parallel()
	minusOne := uint64(math.MaxUint64)
	for _, tt := range []struct {
		in   pb
		want string
	}{
		{nil, "1970-01-01T00:00:00Z"},
		{pb{}.num(1, 1700000000), "2023-11-14T22:13:20Z"},
		{pb{}.num(1, 1700000000).num(2, 123000000), "2023-11-14T22:13:20.123Z"},
		{pb{}.num(1, 1700000000).num(2, 123000), "2023-11-14T22:13:20.000123Z"},
		{pb{}.num(1, 1700000000).num(2, 12), "2023-11-14T22:13:20.000000012Z"},
		{pb{}.num(1, minusOne), "1969-12-31T23:59:59Z"},
		{pb{}.num(1, 253402300799), "9999-12-31T23:59:59Z"},
		{pb{}.num(1, 253402300800), ""},
		{pb{}.num(1, uint64(1<<64-62135596800)), "0001-01-01T00:00:00Z"},
		{pb{}.num(1, uint64(1<<64-62135596801)), ""},
		{pb{}.num(2, 1e9), ""},
		{pb{}.num(2, 1<<32|1), "1970-01-01T00:00:00.000000001Z"},
		{pb{}.num(2, minusOne), ""},
		{pb{}.str(1, "x").num(2, 0), "1970-01-01T00:00:00Z"},
	} {
		msg := pb{}.msg(3, pb{}.str(1, "t").msg(3, pb{}.num(1, 2).msg(3, tt.in)))
		if got := readAnswer(t, wire.V10, wire.OpStream, msg).Timestamp; got != tt.want {
			t.Errorf("timestamp of %x = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// A unary answer has no status updates, so that one is an unknown field.
func TestReadProtoResponseUnary(t *testing.T) {
	t.Parallel()
	msg := join(pb{}.msg(1, pb{}.str(1, "t")), pb{}.msg(3, pb{}.str(1, "u")))
	for op, want := range map[wire.Op]wire.Update{
		wire.OpSend:      {Kind: wire.UpdateTask, TaskID: "t"},
		wire.OpStream:    {Kind: wire.UpdateStatus, TaskID: "u"},
		wire.OpSubscribe: {Kind: wire.UpdateStatus, TaskID: "u"},
	} {
		if diff := cmp.Diff(want, readAnswer(t, wire.V10, op, msg)); diff != "" {
			t.Errorf("ReadProtoResponse(%v, %x) (-want +got):\n%s", op, msg, diff)
		}
	}
}

// A DataPart of 0.3 stands for what is in it, however many pieces that is in.
func TestProtoDataPart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   pb
		want string
	}{
		{nil, `[{"data":{}}]`},
		{pb{}.msg(1, entry("a", double(1))), `[{"data":{"a":1}}]`},
		{join(pb{}.msg(1, entry("a", double(1))), pb{}.num(1, 1), pb{}.msg(1, entry("b", double(2)))), `[{"data":{"a":1,"b":2}}]`},
	} {
		msg := pb{}.msg(2, pb{}.msg(5, pb{}.msg(3, tt.in)))
		if got := string(readAnswer(t, wire.V03, wire.OpSend, msg).Parts); got != tt.want {
			t.Errorf("parts with the data %x = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// SDKs of 0.3 put base64 where the proto has bytes, but not all of them.
func TestProtoFileBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		size int
	}{
		{"", 0},
		{"hello", 5},    // too short for base64
		{"aGVsbG8=", 5}, // hello
		{"aGVsbG8", 7},  // not padded
		{"aGVs\nbG8=", 9},
		{"aGVsbG8g", 6},
		{"aGVsbA==", 4},
		{"aGVs====", 8},
		{"-_-_", 4}, // not the standard alphabet
		{"\x00\x01\x02\x03", 4},
	} {
		msg := pb{}.msg(2, pb{}.str(1, "m").msg(5, pb{}.msg(2, pb{}.str(2, tt.in).str(4, "name"))))
		parts, err := wire.ReadParts(readAnswer(t, wire.V03, wire.OpSend, msg).Parts)
		if err != nil || len(parts) != 1 || parts[0].Kind != "file" || parts[0].Bytes != tt.size || parts[0].Name != "name" {
			t.Errorf("ReadParts(file of %q) = %+v, %v, want a file of %d bytes", tt.in, parts, err, tt.size)
		}
	}
}

// A message that occurs again is merged, as the SDKs do; of a oneof and of a
// string, the last one counts.
func TestReadProtoResponseMerges(t *testing.T) {
	t.Parallel()
	part := func(text string) pb { return pb{}.msg(5, pb{}.str(1, text)) }
	for _, tt := range []struct {
		name string
		in   pb
		want wire.Update
	}{
		{"task", join(pb{}.msg(1, pb{}.str(1, "a").str(2, "c")), pb{}.msg(1, pb{}.str(1, "b"))), wire.Update{Kind: wire.UpdateTask, TaskID: "b", ContextID: "c"}},
		{"status, in three", pb{}.msg(1, join(pb{}.msg(3, pb{}.num(1, 2)), pb{}.msg(3, pb{}.msg(2, pb{}.str(1, "m"))), pb{}.msg(3, pb{}.msg(2, part("x"))))), wire.Update{Kind: wire.UpdateTask, State: wire.TaskWorking, MessageID: "m", Parts: []byte(`[{"text":"x"}]`)}},
		{"timestamp, in two", pb{}.msg(3, pb{}.msg(3, join(pb{}.msg(3, pb{}.num(1, 1700000000)), pb{}.msg(3, pb{}.num(2, 5e8))))), wire.Update{Kind: wire.UpdateStatus, Timestamp: "2023-11-14T22:13:20.500Z"}},
		{"metadata, in two", pb{}.msg(1, join(pb{}.msg(6, entry("a", nil)), pb{}.msg(6, entry("b", nil)))), wire.Update{Kind: wire.UpdateTask, Metadata: []byte(`{"a":null,"b":null}`)}},
		{"parts add up", pb{}.msg(2, join(pb{}.str(1, "m"), part("x"), pb{}.num(4, 1), part("y"))), wire.Update{Kind: wire.UpdateMessage, MessageID: "m", Parts: []byte(`[{"text":"x"},{"text":"y"}]`)}},
		{"another payload", join(pb{}.msg(1, pb{}.str(1, "a").str(2, "c")), pb{}.msg(2, pb{}.str(1, "m")), pb{}.msg(1, pb{}.str(1, "b"))), wire.Update{Kind: wire.UpdateTask, TaskID: "b"}},
		{"part of two kinds", pb{}.msg(2, pb{}.msg(5, pb{}.str(1, "text").str(3, "http://u"))), wire.Update{Kind: wire.UpdateMessage, Parts: []byte(`[{"url":"http://u"}]`)}},
		{"parts of a wrong wire type", pb{}.msg(2, join(pb{}.num(5, 1), part("x"))), wire.Update{Kind: wire.UpdateMessage, Parts: []byte(`[{"text":"x"}]`)}},
		{"wrong wire types", pb{}.msg(1, pb{}.num(1, 7).str(2, "c").num(3, 7)).num(2, 7), wire.Update{Kind: wire.UpdateTask, ContextID: "c"}},
		{"nothing", nil, wire.Update{}},
		{"unknown", pb{}.msg(9, nil), wire.Update{}},
		{"state of a later version", pb{}.msg(3, pb{}.msg(3, pb{}.num(1, 99))), wire.Update{Kind: wire.UpdateStatus}},
		{"state past 32 bits", pb{}.msg(3, pb{}.msg(3, pb{}.num(1, 1<<32|2))), wire.Update{Kind: wire.UpdateStatus, State: wire.TaskWorking}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, readAnswer(t, wire.V10, wire.OpStream, tt.in)); diff != "" {
				t.Errorf("ReadProtoResponse(%x) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestReadProtoResponseRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op wire.Op
		in pb
	}{
		{wire.OpSend, pb{0x80}},
		{wire.OpSend, pb{0x07}},
		{wire.OpStream, pb{}.str(3, "\x80")},
		{wire.OpGet, pb{}.str(3, "\x80")},
		{wire.OpList, pb{}.str(1, "\x80")},
		{wire.OpList, pb{0x80}},
		{wire.OpGet, pb{}.msg(3, pb{}.str(3, "\x80"))},             // timestamp
		{wire.OpGet, pb{}.str(6, "\x80")},                          // Struct
		{wire.OpGet, pb{}.msg(6, pb{}.str(1, "\x80"))},             // its entry
		{wire.OpGet, pb{}.msg(6, entry("a", pb("\x80")))},          // Value
		{wire.OpGet, pb{}.msg(6, entry("a", pb{}.str(6, "\x80")))}, // ListValue
		{wire.OpGet, pb{}.msg(4, pb{}.msg(4, pb("\x80")))},         // part
		{wire.OpGet, pb{}.msg(4, pb{}.msg(4, pb{}.msg(4, pb{}.msg(5, pb("\x80\x80"))))) /* its data */},
	} {
		const want = "response is not protobuf: "
		if u, err := wire.ReadProtoResponse(wire.V10, tt.op, tt.in); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("ReadProtoResponse(%v, %x) = %+v, %v, want %q", tt.op, tt.in, u, err, want)
		}
	}
	for _, op := range []wire.Op{wire.OpOther, wire.OpPushSet, wire.OpPushGet, wire.OpPushList, wire.OpPushDelete, wire.OpCard} {
		if diff := cmp.Diff(wire.Update{}, readAnswer(t, wire.V03, op, pb{0x80})); diff != "" {
			t.Errorf("ReadProtoResponse(%v) (-want +got):\n%s", op, diff)
		}
	}
}

// What a few packed bytes stand for may take no more room than its size allows.
// It is not parallel, so that all that is allocated is its own.
func TestReadProtoResponseIsBounded(t *testing.T) { //nolint:paralleltest // counts allocations
	const size = 8 << 20
	fill := func(b ...byte) string { return string(bytes.Repeat(b, size/len(b))) }
	part := func(field protowire.Number, s string) pb {
		return pb{}.msg(1, pb{}.msg(4, pb{}.msg(4, pb{}.str(field, s))))
	}
	row := pb{}.msg(1, pb{}.msg(5, join(entry("abc", double(-0.123456789)), entry("defg", pb{}.str(3, "words")), entry("h", pb{}.num(4, 1)))))
	for _, tt := range []struct {
		name    string
		op      wire.Op
		in      pb
		tooLong bool
	}{
		{"text", wire.OpStream, part(1, fill('x')), false},
		{"text of quotes", wire.OpStream, part(1, fill('"', 'x')), false},
		{"file", wire.OpStream, part(2, fill(0)), false},
		{"rows of data", wire.OpStream, pb{}.msg(1, pb{}.msg(6, entry("rows", pb{}.str(6, fill(row...))))), false},
		{"escapes", wire.OpStream, part(1, fill(1)), true},
		{"escapes in keys", wire.OpStream, pb{}.msg(1, pb{}.msg(6, entry(fill(1), nil))), true},
		{"files", wire.OpStream, pb{}.msg(1, pb{}.msg(4, pb{}.str(4, fill(pb{}.str(2, "")...)))), false}, // of one part, the last
		{"parts", wire.OpStream, pb{}.msg(1, pb{}.msg(4, pb(fill(pb{}.msg(4, nil)...)))), true},
		{"artifacts", wire.OpStream, pb{}.str(1, fill(pb{}.msg(4, nil)...)), true},
		{"tasks", wire.OpList, pb(fill(pb{}.msg(1, nil)...)), true},
		{"keys", wire.OpStream, pb{}.msg(1, pb{}.str(6, fill(pb{}.msg(1, nil)...))), true},
		{"list", wire.OpStream, pb{}.msg(1, pb{}.msg(6, entry("a", pb{}.str(6, fill(pb{}.msg(1, nil)...))))), true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := wire.ReadProtoResponse(wire.V10, tt.op, tt.in)
		runtime.ReadMemStats(&after)
		if got := errors.Is(err, wire.ErrTooLong); got != tt.tooLong || err != nil && !got {
			t.Errorf("%s: ReadProtoResponse() = %v, want too long: %v", tt.name, err, tt.tooLong)
		}
		// A buffer that grows is allocated several times over.
		if got := after.TotalAlloc - before.TotalAlloc; got > 12*size {
			t.Errorf("%s: ReadProtoResponse(%d bytes) allocates %d, want no more than 12 times as much", tt.name, len(tt.in), got)
		}
	}
}

// A short message may be all escapes.
func TestReadProtoResponseOfEscapes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x01\n\xff", 1<<20)
	u := readAnswer(t, wire.V10, wire.OpSend, pb{}.msg(2, pb{}.str(1, "m").msg(5, pb{}.str(1, text))))
	parts, err := wire.ReadParts(u.Parts)
	if want := strings.Repeat("\x01\n\uFFFD", 1<<20); err != nil || len(parts) != 1 || parts[0].Text != want {
		t.Errorf("ReadParts() = %d parts, %v, want the text", len(parts), err)
	}
}

func BenchmarkReadProtoResponse(b *testing.B) {
	text := strings.Repeat("lorem ipsum ", 1<<20/12)
	var pieces pb // merging them must not take the square of their number
	for range 1 << 18 {
		pieces = pieces.msg(3, pb{}.num(1, 2))
	}
	for _, bb := range []struct {
		name string
		in   pb
	}{
		{"status", pb{}.msg(3, pb{}.str(1, "task").str(2, "ctx").msg(3, pb{}.num(1, 2).msg(3, pb{}.num(1, 1700000000))))},
		{"1MB", pb{}.msg(1, pb{}.str(1, "task").msg(4, pb{}.str(1, "a").msg(4, pb{}.str(1, text))))},
		{"10MB", pb{}.msg(1, pb{}.str(1, "task").msg(4, pb{}.str(1, "a").msg(4, pb{}.str(1, strings.Repeat(text, 10)))))},
		{"pieces", pb{}.msg(1, pieces)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.in)))
			b.ReportAllocs()
			for b.Loop() {
				readAnswer(b, wire.V10, wire.OpStream, bb.in)
			}
		})
	}
}
