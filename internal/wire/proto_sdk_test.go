package wire_test

import (
	"encoding/json"
	"slices"
	"testing"

	a2av0 "github.com/a2aproject/a2a-go/a2apb"
	a2av1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// The SDKs' generated types are the oracle of these tests.
var services = map[wire.Version]protoreflect.ServiceDescriptor{
	wire.V03: a2av0.File_a2a_proto.Services().ByName("A2AService"),
	wire.V10: a2av1.File_a2av1_proto.Services().ByName("A2AService"),
}

// sdkMethod is a method as the SDK of its version has it.
type sdkMethod struct {
	wire.GRPCMethod
	desc protoreflect.MethodDescriptor
}

func (m sdkMethod) request() proto.Message  { return newMessage(m.desc.Input()) }
func (m sdkMethod) response() proto.Message { return newMessage(m.desc.Output()) }

// newMessage makes an empty message of the generated type.
func newMessage(desc protoreflect.MessageDescriptor) proto.Message {
	typ, err := protoregistry.GlobalTypes.FindMessageByName(desc.FullName())
	if err != nil {
		panic(err) // the SDK's package registers it
	}
	return typ.New().Interface()
}

// sdkMethods returns the methods of both versions.
func sdkMethods(tb testing.TB) []sdkMethod {
	tb.Helper()
	var all []sdkMethod
	for _, v := range []wire.Version{wire.V03, wire.V10} {
		methods := services[v].Methods()
		for i := range methods.Len() {
			desc := methods.Get(i)
			path := "/" + string(services[v].FullName()) + "/" + string(desc.Name())
			m, ok := wire.MatchGRPC(path)
			if !ok {
				tb.Fatalf("MatchGRPC(%s) = false, want true", path)
			}
			all = append(all, sdkMethod{m, desc})
		}
	}
	return all
}

// marshal encodes a message in the order of its fields.
func marshal(tb fataler, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatalf("Marshal(%v) = %v", m, err)
	}
	return b
}

// unmarshal decodes a message.
func unmarshal[M proto.Message](tb fataler, b []byte, into M) M {
	tb.Helper()
	if err := proto.Unmarshal(b, into); err != nil {
		tb.Fatalf("Unmarshal(%x) = %v", b, err)
	}
	return into
}

// fataler is what the helpers need of *testing.T, *testing.B and *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sub returns the message in a field, by the first of the names that there is.
// Where it is not set, that is an empty one.
func sub(m protoreflect.Message, names ...protoreflect.Name) protoreflect.Message {
	f := fieldOf(m, names)
	if f == nil {
		return new(emptypb.Empty).ProtoReflect()
	}
	return m.Get(f).Message()
}

// str returns the string in a field, "" if there is no such field.
func str(m protoreflect.Message, names ...protoreflect.Name) string {
	if f := fieldOf(m, names); f != nil {
		return m.Get(f).String()
	}
	return ""
}

func fieldOf(m protoreflect.Message, names []protoreflect.Name) protoreflect.FieldDescriptor {
	for _, name := range names {
		if f := m.Descriptor().Fields().ByName(name); f != nil {
			return f
		}
	}
	return nil
}

// object decodes JSON, for comparison.
func object(tb fataler, raw []byte) any {
	tb.Helper()
	if len(raw) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		tb.Fatalf("Unmarshal(%s) = %v", raw, err)
	}
	return v
}

// asObject is the ProtoJSON of a message, decoded.
func asObject(tb fataler, m protoreflect.Message) any {
	tb.Helper()
	b, err := protojson.Marshal(m.Interface())
	if err != nil {
		tb.Fatalf("protojson.Marshal(%v) = %v", m, err)
	}
	return object(tb, b)
}

// drawMessage draws a message of any type. Its ids pass CheckID.
func drawMessage(t *rapid.T, desc protoreflect.MessageDescriptor, depth int) proto.Message {
	m := newMessage(desc)
	switch desc.FullName() {
	case "google.protobuf.Timestamp":
		set(m, "seconds", protoreflect.ValueOfInt64(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds")))
		set(m, "nanos", protoreflect.ValueOfInt32(rapid.Int32Range(0, 999999).Draw(t, "nanos")*rapid.SampledFrom([]int32{1, 1000}).Draw(t, "unit")))
		return m
	case "google.protobuf.Value":
		drawValue(t, m.ProtoReflect(), depth)
		return m
	}
	fields := desc.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && m.ProtoReflect().WhichOneof(o) != nil {
			continue
		}
		if depth <= 0 && f.Kind() == protoreflect.MessageKind || !rapid.Bool().Draw(t, string(f.Name())) {
			continue
		}
		drawField(t, m.ProtoReflect(), f, depth-1)
	}
	return m
}

// drawField draws the value of a field.
func drawField(t *rapid.T, m protoreflect.Message, f protoreflect.FieldDescriptor, depth int) {
	switch {
	case f.IsMap():
		for _, key := range rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "keys") {
			m.Mutable(f).Map().Set(protoreflect.ValueOfString(key).MapKey(), drawSingle(t, f.MapValue(), depth))
		}
	case f.IsList():
		for range rapid.IntRange(0, 3).Draw(t, "count") {
			m.Mutable(f).List().Append(drawSingle(t, f, depth))
		}
	default:
		m.Set(f, drawSingle(t, f, depth))
	}
}

// ids are what a context, a task or a message may be called.
var ids = rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-zé0-9]([ -~]{0,20}[a-zé0-9])?`))

func drawSingle(t *rapid.T, f protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(drawMessage(t, f.Message(), depth).ProtoReflect())
	case protoreflect.StringKind:
		if name := string(f.Name()); name == "id" || len(name) > 3 && name[len(name)-3:] == "_id" {
			return protoreflect.ValueOfString(ids.Draw(t, name))
		}
		return protoreflect.ValueOfString(rapid.String().Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(0, 9).Draw(t, "enum")))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	default:
		t.Fatalf("no generator for %v", f)
		return protoreflect.Value{}
	}
}

// drawValue draws a google.protobuf.Value that JSON has a spelling for.
func drawValue(t *rapid.T, m protoreflect.Message, depth int) {
	kinds := []protoreflect.Name{"null_value", "number_value", "string_value", "bool_value", "struct_value", "list_value"}
	if depth <= 0 {
		kinds = kinds[:4]
	}
	f := m.Descriptor().Fields().ByName(rapid.SampledFrom(kinds).Draw(t, "kind"))
	switch f.Name() {
	case "null_value":
		m.Set(f, protoreflect.ValueOfEnum(0))
	case "number_value":
		n := rapid.OneOf(rapid.Float64Range(-1e300, 1e300), rapid.SampledFrom([]float64{0, 1, -1, 1e21, 1e-7, 9007199254740993, 0.1})).Draw(t, "number")
		m.Set(f, protoreflect.ValueOfFloat64(n))
	default:
		drawField(t, m, f, depth-1)
	}
}

// set sets a field by its name.
func set(m proto.Message, name protoreflect.Name, v protoreflect.Value) {
	m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName(name), v)
}

// shuffled puts the fields of an encoded message in another order, in those
// inside it too, and unknown ones among them. Encoders may do the one, and those
// of later versions do the other.
func shuffled(t *rapid.T, b []byte, desc protoreflect.MessageDescriptor) []byte {
	var fields [][]byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatalf("ConsumeField(%x) = %v", b, protowire.ParseError(n))
		}
		field := b[:n]
		if f := desc.Fields().ByNumber(num); f.Kind() == protoreflect.MessageKind {
			_, _, tag := protowire.ConsumeTag(field)
			payload, _ := protowire.ConsumeBytes(field[tag:])
			field = protowire.AppendBytes(protowire.AppendTag(nil, num, typ), shuffled(t, payload, f.Message()))
		}
		fields = append(fields, field)
		b = b[n:]
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "unknown fields") {
		num := protowire.Number(rapid.Int32Range(100, 110).Draw(t, "number"))
		var field []byte
		switch rapid.IntRange(0, 3).Draw(t, "type") {
		case 0:
			field = protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), rapid.Uint64().Draw(t, "varint"))
		case 1:
			field = protowire.AppendFixed32(protowire.AppendTag(nil, num, protowire.Fixed32Type), 7)
		case 2:
			field = protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		default: // a group, with a field of ours in it
			field = protowire.AppendTag(nil, num, protowire.StartGroupType)
			field = protowire.AppendString(protowire.AppendTag(field, 2, protowire.BytesType), "not an id")
			field = protowire.AppendTag(field, num, protowire.EndGroupType)
		}
		fields = append(fields, field)
	}
	if len(fields) == 0 {
		return nil
	}
	return slices.Concat(rapid.Permutation(fields).Draw(t, "order")...)
}

// readProto reads a request that must be accepted.
func readProto(tb fataler, path string, msg []byte) *wire.Request {
	tb.Helper()
	r, err := wire.ReadProto(path, msg)
	if err != nil {
		tb.Fatalf("ReadProto(%s, %x) = %v, want no error", path, msg, err)
	}
	return r
}
