package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	a2av1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func TestEditedProto(t *testing.T) {
	t.Parallel()
	// fat makes its message 127 bytes long: one more, and the length takes two.
	fat := pb{}.str(1, "m1").str(99, strings.Repeat("x", 120))
	push := func(url string) pb { return pb{}.str(2, "p").str(4, url).str(5, "tok") }
	for _, tt := range []struct {
		name, path  string
		in          pb
		context     string // to set; "-" for leaving it
		url         string
		want        pb
		wantTheSame bool
	}{
		{name: "replace", path: v10 + "SendMessage", in: message10(m1.str(2, "old").num(4, 1)), context: "newer", want: message10(m1.str(2, "newer").num(4, 1))},
		{name: "replace empty", path: v10 + "SendMessage", in: message10(m1.str(2, "").num(4, 1)), context: "new", want: message10(m1.str(2, "new").num(4, 1))},
		{name: "insert last", path: v10 + "SendMessage", in: message10(m1.num(4, 1)).str(1, "tenant"), context: "new", want: message10(m1.num(4, 1).str(2, "new")).str(1, "tenant")},
		{name: "insert 0.3", path: v03 + "SendMessage", in: message03(m1).msg(2, pb{}.num(4, 1)), context: "new", want: message03(m1.str(2, "new")).msg(2, pb{}.num(4, 1))},
		{name: "remove", path: v10 + "SendMessage", in: message10(m1.str(2, "old").num(4, 1)), context: "", want: message10(m1.num(4, 1))},
		{name: "remove absent", path: v10 + "SendMessage", in: message10(m1), context: "", wantTheSame: true},
		{name: "remove empty: already absent", path: v10 + "SendMessage", in: message10(m1.str(2, "")), context: "", wantTheSame: true},
		{name: "the same", path: v10 + "SendMessage", in: message10(m1.str(2, "old")), context: "old", wantTheSame: true},
		{name: "nothing", path: v10 + "SendMessage", in: message10(m1.str(2, "old")), context: "-", wantTheSame: true},
		{name: "length grows", path: v10 + "SendMessage", in: message10(fat).str(99, "after"), context: "c", want: message10(fat.str(2, "c")).str(99, "after")},
		{name: "length shrinks", path: v10 + "SendMessage", in: message10(fat.str(2, "c")).str(99, "after"), context: "", want: message10(fat).str(99, "after")},
		{name: "needs UTF-8", path: v10 + "SendMessage", in: message10(m1), context: "a\xffb", want: message10(m1.str(2, "a\uFFFDb"))},
		{
			name: "a length with more bytes than it needs stays", path: v10 + "SendMessage", context: "new",
			in:   message10(append(m1, 0x9a, 0x06, 0x81, 0x80, 0x00, 'x')),
			want: message10(append(m1, 0x9a, 0x06, 0x81, 0x80, 0x00, 'x').str(2, "new")),
		},

		{name: "list replace", path: v10 + "ListTasks", in: pb{}.str(1, "tenant").str(2, "old").num(4, 5), context: "new", want: pb{}.str(1, "tenant").str(2, "new").num(4, 5)},
		{name: "list insert", path: v10 + "ListTasks", in: pb{}.num(4, 5), context: "new", want: pb{}.num(4, 5).str(2, "new")},
		{name: "list insert into nothing", path: v10 + "ListTasks", in: nil, context: "new", want: pb{}.str(2, "new")},
		{name: "list remove", path: v10 + "ListTasks", in: pb{}.str(2, "old"), context: "", want: pb{}},
		{name: "list 0.3", path: v03 + "ListTasks", in: pb{}.str(1, "old").num(2, 5), context: "new", want: pb{}.str(1, "new").num(2, 5)},
		{name: "list insert 0.3", path: v03 + "ListTasks", in: pb{}.num(2, 5), context: "new", want: pb{}.num(2, 5).str(1, "new")},
		{name: "get has no place for it", path: v10 + "GetTask", in: pb{}.str(2, "t"), context: "new", wantTheSame: true},
		{name: "other has no place for it", path: v10 + "Nope", in: pb("\xff"), context: "new", url: "http://new", wantTheSame: true},

		{name: "push set", path: v10 + "CreateTaskPushNotificationConfig", in: push("http://old"), context: "-", url: "http://new", want: push("http://new")},
		{name: "push set 0.3", path: v03 + "CreateTaskPushNotificationConfig", in: pb{}.str(1, "tasks/t").msg(3, pb{}.msg(2, pb{}.str(2, "u").str(3, "tok")).str(99, "x")), context: "-", url: "http://new", want: pb{}.str(1, "tasks/t").msg(3, pb{}.msg(2, pb{}.str(2, "http://new").str(3, "tok")).str(99, "x"))},
		{name: "push in a send", path: v10 + "SendMessage", in: message10(m1).msg(3, pb{}.msg(2, push("http://old")).num(4, 1)), context: "-", url: "http://new", want: message10(m1).msg(3, pb{}.msg(2, push("http://new")).num(4, 1))},
		{name: "push in a send 0.3", path: v03 + "SendMessage", in: message03(m1).msg(2, pb{}.msg(2, pb{}.str(2, "u"))), context: "-", url: "http://new", want: message03(m1).msg(2, pb{}.msg(2, pb{}.str(2, "http://new")))},
		{name: "push to the same", path: v10 + "CreateTaskPushNotificationConfig", in: push("http://old"), context: "-", url: "http://old", wantTheSame: true},
		{name: "push without a URL", path: v10 + "CreateTaskPushNotificationConfig", in: push(""), context: "-", url: "http://new", wantTheSame: true},
		{name: "no push", path: v10 + "SendMessage", in: message10(m1), context: "-", url: "http://new", wantTheSame: true},
		{name: "both", path: v10 + "SendMessage", in: message10(fat).msg(3, pb{}.msg(2, push("http://old"))), context: "c", url: "http://newer", want: message10(fat.str(2, "c")).msg(3, pb{}.msg(2, push("http://newer")))},
		{name: "both, the other way round", path: v10 + "SendMessage", in: pb{}.msg(3, pb{}.msg(2, push("http://old"))).msg(2, fat), context: "c", url: "http://newer", want: pb{}.msg(3, pb{}.msg(2, push("http://newer"))).msg(2, fat.str(2, "c"))},
		{name: "lengths grow on every level", path: v10 + "SendMessage", in: message10(m1).msg(3, pb{}.msg(2, push("u"))), context: "-", url: strings.Repeat("u", 1<<14), want: message10(m1).msg(3, pb{}.msg(2, push(strings.Repeat("u", 1<<14))))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := bytes.Clone(tt.in)
			e := wire.Edit{PushURL: tt.url}
			if tt.context != "-" {
				e.Context = &tt.context
			}
			got := readProto(t, tt.path, tt.in).Edited(e)
			if tt.wantTheSame {
				if !same(got, tt.in) {
					t.Errorf("Edited(%x) = %x, want the message itself", tt.in, got)
				}
			} else if !bytes.Equal(got, tt.want) {
				t.Errorf("Edited(%x) =\n%x, want\n%x", tt.in, got, tt.want)
			}
			if !bytes.Equal(tt.in, before) {
				t.Errorf("after Edited the message is %x, want %x", tt.in, before)
			}
		})
	}
}

// checkProtoSplice holds what must be true of every request that ReadProto
// accepts.
func checkProtoSplice(t errorer, path string, msg []byte, id, url string) {
	t.Helper()
	r, err := wire.ReadProto(path, msg)
	if err != nil {
		var e *wire.Error
		if !errors.As(err, &e) || e.What == "" || e.Code != wire.CodeParse && e.Code != wire.CodeInvalid {
			t.Errorf("ReadProto(%s, %x) = %#v, want an *Error with a code and words", path, msg, err)
		}
		return
	}
	if _, err := wire.ReadParts(r.Parts()); err != nil {
		t.Errorf("ReadParts(%s) = %v, want no error", r.Parts(), err)
	}
	idle := wire.Edit{Context: &r.ContextID}
	if r.Push != nil {
		idle.PushURL = r.Push.URL
	}
	for _, e := range []wire.Edit{{}, idle} {
		if got := r.Edited(e); !same(got, msg) {
			t.Errorf("Edited(%s, %x) = %x, want the message itself", path, msg, got)
		}
	}
	if r.Op == wire.OpOther {
		return
	}
	if wire.CheckID("id", id) != nil {
		id = ""
	}
	url = strings.ToValidUTF8(url, "\uFFFD")
	out := r.Edited(wire.Edit{Context: &id, PushURL: url})
	again, err := wire.ReadProto(path, out)
	if err != nil {
		t.Fatalf("ReadProto(%s, %x) = %v after an edit of %x, want no error", path, out, err, msg)
	}
	want := *r
	if r.Op.Sends() || r.Op == wire.OpList {
		want.ContextID = id
	}
	if r.Push != nil && r.Push.URL != "" && url != "" {
		push := *r.Push
		push.URL = url
		want.Push = &push
	}
	if diff := requestDiff(want, *again); diff != "" {
		t.Errorf("ReadProto(%s, %x) after an edit of %x (-want +got):\n%s", path, out, msg, diff)
	}
	checkSDKEdit(t, path, msg, out, want)
}

// checkSDKEdit reports whether what the SDK reads of an edited message is what
// it reads of the message before, but for what was to change. Of a message that
// it does not read, it says nothing.
func checkSDKEdit(t errorer, path string, msg, out []byte, want wire.Request) {
	t.Helper()
	m, _ := wire.MatchGRPC(path)
	desc := services[m.Version].Methods().ByName(protoreflect.Name(path[strings.LastIndexByte(path, '/')+1:]))
	before, after := newMessage(desc.Input()), newMessage(desc.Input())
	if proto.Unmarshal(msg, before) != nil {
		return
	}
	if err := proto.Unmarshal(out, after); err != nil {
		t.Fatalf("Unmarshal(%x) = %v after an edit of %x", out, err, msg)
	}
	top := before.ProtoReflect()
	switch {
	case m.Op.Sends():
		setText(sub(top, "message", "request"), "context_id", want.ContextID)
	case m.Op == wire.OpList:
		setText(top, "context_id", want.ContextID)
	}
	if want.Push != nil && want.Push.URL != "" {
		setText(pushOf(top), "url", want.Push.URL)
	}
	if !proto.Equal(before, after) {
		t.Errorf("the SDK reads %v after an edit, want %v", after, before)
	}
}

// pushOf is the push configuration in a request.
func pushOf(top protoreflect.Message) protoreflect.Message {
	if fieldOf(top, []protoreflect.Name{"url"}) != nil {
		return top
	}
	return sub(sub(top, "configuration", "config"), "task_push_notification_config", "push_notification_config", "push_notification")
}

// setText sets a string field by its name; "" clears it.
func setText(m protoreflect.Message, name protoreflect.Name, s string) {
	if f := m.Descriptor().Fields().ByName(name); s == "" {
		m.Clear(f)
	} else {
		m.Set(f, protoreflect.ValueOfString(s))
	}
}

// Whatever an SDK can say is read as it reads it, edits included.
func TestProtoRequestProperty(t *testing.T) {
	t.Parallel()
	for _, m := range sdkMethods(t) {
		t.Run(m.Name[1:], func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				drawn := drawMessage(t, m.desc.Input(), 7)
				named := fillIDs(t, m, drawn.ProtoReflect())
				msg := shuffled(t, marshal(t, drawn), m.desc.Input())
				r := readProto(t, m.Name, msg)
				checkNames(t, r, named)
				if m.Op.Sends() {
					// Shuffled parts are in another order.
					again := unmarshal(t, msg, m.request())
					message := sub(again.ProtoReflect(), "message", "request")
					checkParts(t, r.Parts(), message)
					session := sub(message, "metadata").Interface().(*structpb.Struct).GetFields()["adk_session_id"].GetStringValue()
					if r.SenderSession != session {
						t.Errorf("ReadProto(%v).SenderSession = %q, want %q", drawn, r.SenderSession, session)
					}
				}
				checkProtoSplice(t, m.Name, msg, ids.Draw(t, "new context"), rapid.StringN(0, 300, -1).Draw(t, "new url"))
			})
		})
	}
}

// fillIDs puts names into a request that a drawn one cannot have by chance, and
// returns those of the context, the task and the message.
func fillIDs(t *rapid.T, m sdkMethod, top protoreflect.Message) (want wire.Request) {
	if m.Op.Sends() {
		message := top.Mutable(fieldOf(top, []protoreflect.Name{"message", "request"})).Message()
		setText(message, "message_id", ids.Filter(func(id string) bool { return id != "" }).Draw(t, "message_id"))
		if rapid.Bool().Draw(t, "from ADK") {
			metadata := message.Mutable(fieldOf(message, []protoreflect.Name{"metadata"})).Message().Interface().(*structpb.Struct)
			if metadata.Fields == nil {
				metadata.Fields = map[string]*structpb.Value{}
			}
			metadata.Fields["adk_session_id"] = structpb.NewStringValue(rapid.String().Draw(t, "session"))
		}
		return wire.Request{MessageID: str(message, "message_id"), ContextID: str(message, "context_id"), TaskID: str(message, "task_id")}
	}
	if m.Op == wire.OpList {
		return wire.Request{ContextID: str(top, "context_id")}
	}
	if f := fieldOf(top, []protoreflect.Name{"name", "parent"}); f != nil {
		id := rapid.StringMatching(`[a-z0-9 -]{0,9}[a-z]`).Filter(func(s string) bool { return s[0] != ' ' }).Draw(t, "task")
		name := "tasks/" + id
		if m.Op == wire.OpPushGet || m.Op == wire.OpPushDelete {
			name += "/pushNotificationConfigs/" + rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "config")
		}
		top.Set(f, protoreflect.ValueOfString(name))
		if config := sub(top, "config"); config.IsValid() && m.Op == wire.OpPushSet {
			setText(config, "name", name+"/pushNotificationConfigs/None")
		}
		return wire.Request{TaskID: id}
	}
	if f := fieldOf(top, []protoreflect.Name{"task_id", "id"}); f != nil {
		return wire.Request{TaskID: top.Get(f).String()}
	}
	return wire.Request{}
}

func checkNames(t errorer, r *wire.Request, want wire.Request) {
	t.Helper()
	if r.MessageID != want.MessageID || r.ContextID != want.ContextID || r.TaskID != want.TaskID {
		t.Errorf("ReadProto() = message %q, context %q, task %q, want %q, %q, %q",
			r.MessageID, r.ContextID, r.TaskID, want.MessageID, want.ContextID, want.TaskID)
	}
}

// FuzzReadProto reads and splices. The method is that of the number.
func FuzzReadProto(f *testing.F) {
	methods := sdkMethods(f)
	for n, m := range methods {
		for _, msg := range protoSeeds(f, "requests", m.Name) {
			f.Add(n, msg, "ctx", "http://relay/x")
		}
	}
	f.Add(0, []byte(message03(m1.str(2, "c").msg(6, pb{}.msg(1, pb{}.str(1, "adk_session_id").msg(2, pb{}.str(3, "s")))))), "", "")
	f.Fuzz(func(t *testing.T, n int, msg []byte, id, url string) {
		path := v10 + "Nope"
		if n >= 0 && n < len(methods) {
			path = methods[n].Name
		}
		checkProtoSplice(t, path, msg, id, url)
	})
}

// protoBody is a send of about that many bytes, of real proportions.
func protoBody(tb testing.TB, size int) []byte {
	tb.Helper()
	message := &a2av1.Message{
		MessageId: "01a1f815-682b-7f5c-8a38-5c1f63b0ae56", ContextId: "01a1f815-682b-7f5c-8a38-5c1f63b0ae58",
		TaskId: "01a1f815-682b-7f5c-8a38-5c1f63b0ae57", Role: a2av1.Role_ROLE_USER,
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"adk_session_id": structpb.NewStringValue("01a1f815-682b-7f5c-8a38-5c1f63b0ae59")}},
	}
	for n := 300; n < size; n += 1000 {
		text := strings.Repeat("lorem ipsum ", min(size-n, 1000)/12)
		message.Parts = append(message.Parts, &a2av1.Part{Content: &a2av1.Part_Text{Text: text}})
	}
	return marshal(tb, &a2av1.SendMessageRequest{Message: message, Configuration: &a2av1.SendMessageConfiguration{AcceptedOutputModes: []string{"text/plain"}}})
}

func BenchmarkReadProtoSplice(b *testing.B) {
	id := "01a1f815-682b-7f5c-8a38-5c1f63b0aeff"
	for _, bb := range []struct {
		name string
		size int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"1MB", 1 << 20}, {"10MB", 10 << 20}} {
		b.Run(bb.name, func(b *testing.B) {
			in := protoBody(b, bb.size)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				readProto(b, v10+"SendMessage", in).Edited(wire.Edit{Context: &id})
			}
		})
	}
}
