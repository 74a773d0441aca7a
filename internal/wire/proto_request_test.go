package wire_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

const (
	v03 = "/a2a.v1.A2AService/"
	v10 = "/lf.a2a.v1.A2AService/"
)

// pb writes protobuf by hand, for what no encoder would write.
type pb []byte

func (b pb) str(num protowire.Number, s string) pb {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func (b pb) msg(num protowire.Number, m pb) pb { return b.str(num, string(m)) }

func (b pb) num(num protowire.Number, v uint64) pb {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// m1 is a message with nothing but an id.
var m1 = pb{}.str(1, "m1")

// message10 and message03 are sends of a message.
func message10(m pb) pb { return pb{}.msg(2, m) }
func message03(m pb) pb { return pb{}.msg(1, m) }

// Every method of the SDKs is known, and nothing else.
func TestMatchGRPC(t *testing.T) {
	t.Parallel()
	ops := map[wire.Version]map[wire.Op]bool{wire.V03: {}, wire.V10: {}}
	for _, m := range sdkMethods(t) {
		if got, want := m.Op.Streaming(), m.desc.IsStreamingServer(); got != want {
			t.Errorf("MatchGRPC(%s).Op = %v, which streams: %v, want %v", m.Name, m.Op, got, want)
		}
		if want := "/" + string(m.desc.Parent().FullName()) + "/" + string(m.desc.Name()); m.Name != want {
			t.Errorf("MatchGRPC(%s).Name = %s", want, m.Name)
		}
		ops[m.Version][m.Op] = true
	}
	for v, seen := range ops {
		for op := wire.OpSend; op <= wire.OpCard; op++ {
			if !seen[op] {
				t.Errorf("no method of %v is %v", v, op)
			}
		}
	}
	for path, want := range map[string]wire.GRPCMethod{
		v03 + "TaskSubscription":                {Version: wire.V03, Op: wire.OpSubscribe},
		v03 + "ListTaskPushNotificationConfig":  {Version: wire.V03, Op: wire.OpPushList},
		v03 + "GetAgentCard":                    {Version: wire.V03, Op: wire.OpCard},
		v10 + "SubscribeToTask":                 {Version: wire.V10, Op: wire.OpSubscribe},
		v10 + "ListTaskPushNotificationConfigs": {Version: wire.V10, Op: wire.OpPushList},
		v10 + "GetExtendedAgentCard":            {Version: wire.V10, Op: wire.OpCard},
	} {
		want.Name = path
		if got, ok := wire.MatchGRPC(path); !ok || got != want {
			t.Errorf("MatchGRPC(%s) = %v, %v, want %v, true", path, got, ok, want)
		}
	}
	for _, path := range []string{"", "/", v10, v10 + "TaskSubscription", v03 + "SubscribeToTask", v10 + "sendMessage", "/x" + v10 + "SendMessage", v10 + "SendMessage/", "/grpc.health.v1.Health/Check"} {
		if got, ok := wire.MatchGRPC(path); ok {
			t.Errorf("MatchGRPC(%q) = %v, true, want false", path, got)
		}
	}
}

func TestReadProtoFields(t *testing.T) {
	t.Parallel()
	auth10, auth03 := pb{}.str(1, "Bearer").str(2, "secret"), pb{}.str(1, "Bearer").str(1, "Basic")
	push10 := pb{}.str(2, "p").str(3, "other-task").str(4, "http://u").str(5, "tok").msg(6, auth10)
	push03 := pb{}.str(1, "p").str(2, "http://u").str(3, "tok").msg(4, auth03)
	full := &wire.Push{ID: "p", URL: "http://u", HasToken: true, HasScheme: true}
	metadata := func(key string, value pb) pb {
		return pb{}.msg(1, pb{}.str(1, "other").msg(2, pb{}.str(3, "x"))).msg(1, pb{}.str(1, key).msg(2, value))
	}
	for _, tt := range []struct {
		name, path string
		msg        pb
		want       wire.Request // but for Method, Binding, Version and Op
	}{
		{"send", v10 + "SendMessage", message10(m1.str(2, "c").str(3, "t")), wire.Request{MessageID: "m1", ContextID: "c", TaskID: "t"}},
		{"stream", v10 + "SendStreamingMessage", message10(m1), wire.Request{MessageID: "m1"}},
		{"send 0.3", v03 + "SendMessage", message03(m1.str(2, "c").str(3, "t")), wire.Request{MessageID: "m1", ContextID: "c", TaskID: "t"}},
		{"stream 0.3", v03 + "SendStreamingMessage", message03(m1), wire.Request{MessageID: "m1"}},
		{"empty ids", v10 + "SendMessage", message10(m1.str(2, "").str(3, "")), wire.Request{MessageID: "m1"}},
		{"longest id", v10 + "SendMessage", message10(m1.str(2, strings.Repeat("c", wire.MaxID))), wire.Request{MessageID: "m1", ContextID: strings.Repeat("c", wire.MaxID)}},
		{"unknown fields", v10 + "SendMessage", message10(m1.num(200, 1).msg(99, pb{}.str(2, "deep"))).str(1, "tenant").str(99, "x"), wire.Request{MessageID: "m1"}},
		{"fields in any order", v10 + "SendMessage", pb{}.num(99, 1).msg(2, pb{}.str(3, "t").str(2, "c").str(1, "m1")), wire.Request{MessageID: "m1", ContextID: "c", TaskID: "t"}},
		{"sender session", v10 + "SendMessage", message10(m1.msg(6, metadata("adk_session_id", pb{}.str(3, "s")))), wire.Request{MessageID: "m1", SenderSession: "s"}},
		{"sender session of another type", v10 + "SendMessage", message10(m1.msg(6, metadata("adk_session_id", pb{}.num(4, 1)))), wire.Request{MessageID: "m1"}},
		{"sender session twice: the last one counts", v10 + "SendMessage", message10(m1.msg(6, slices.Concat(metadata("adk_session_id", pb{}.str(3, "s")), metadata("adk_session_id", pb{}.num(4, 1))))), wire.Request{MessageID: "m1"}},
		{"metadata of another key", v10 + "SendMessage", message10(m1.msg(6, metadata("adk_app_name", pb{}.str(3, "s")))), wire.Request{MessageID: "m1"}},
		{"metadata that cannot be read", v10 + "SendMessage", message10(m1.str(6, "\xff\xff")), wire.Request{MessageID: "m1"}},
		{"send with push", v10 + "SendMessage", message10(m1).msg(3, pb{}.str(1, "text").msg(2, push10)), wire.Request{MessageID: "m1", Push: full}},
		{"send with push 0.3", v03 + "SendMessage", message03(m1).msg(2, pb{}.str(1, "text").msg(2, push03)), wire.Request{MessageID: "m1", Push: full}},
		{"send with configuration", v10 + "SendMessage", message10(m1).msg(3, pb{}.num(4, 1)), wire.Request{MessageID: "m1"}},
		{"send with empty push", v10 + "SendMessage", message10(m1).msg(3, pb{}.msg(2, nil)), wire.Request{MessageID: "m1", Push: &wire.Push{}}},
		{"credentials without a scheme", v10 + "CreateTaskPushNotificationConfig", pb{}.msg(6, pb{}.str(1, "").str(2, "secret")), wire.Request{Push: &wire.Push{}}},

		{"get", v10 + "GetTask", pb{}.str(1, "tenant").str(2, "t"), wire.Request{TaskID: "t"}},
		{"cancel", v10 + "CancelTask", pb{}.str(2, "t"), wire.Request{TaskID: "t"}},
		{"subscribe", v10 + "SubscribeToTask", pb{}.str(2, "t"), wire.Request{TaskID: "t"}},
		{"list", v10 + "ListTasks", pb{}.str(1, "tenant").str(2, "c"), wire.Request{ContextID: "c"}},
		{"list nothing", v10 + "ListTasks", nil, wire.Request{}},
		{"push set", v10 + "CreateTaskPushNotificationConfig", slices.Concat(pb{}.str(1, "tenant"), push10), wire.Request{TaskID: "other-task", Push: full}},
		{"push get", v10 + "GetTaskPushNotificationConfig", pb{}.str(2, "t").str(3, "p"), wire.Request{TaskID: "t"}},
		{"push list", v10 + "ListTaskPushNotificationConfigs", pb{}.str(1, "t").str(4, "tenant"), wire.Request{TaskID: "t"}},
		{"push delete", v10 + "DeleteTaskPushNotificationConfig", pb{}.str(2, "t").str(3, "p"), wire.Request{TaskID: "t"}},
		{"card", v10 + "GetExtendedAgentCard", pb{}.str(1, "tenant"), wire.Request{}},

		{"get 0.3", v03 + "GetTask", pb{}.str(1, "tasks/t").num(2, 1), wire.Request{TaskID: "t"}},
		{"get 0.3 without name", v03 + "GetTask", nil, wire.Request{}},
		{"get 0.3 without id", v03 + "GetTask", pb{}.str(1, "tasks/"), wire.Request{}},
		{"cancel 0.3", v03 + "CancelTask", pb{}.str(1, "tasks/t"), wire.Request{TaskID: "t"}},
		{"subscribe 0.3", v03 + "TaskSubscription", pb{}.str(1, "tasks/t"), wire.Request{TaskID: "t"}},
		{"list 0.3", v03 + "ListTasks", pb{}.str(1, "c"), wire.Request{ContextID: "c"}},
		{"push set 0.3", v03 + "CreateTaskPushNotificationConfig", pb{}.str(1, "tasks/t").str(2, "beside").msg(3, pb{}.str(1, "tasks/t/pushNotificationConfigs/None").msg(2, push03)), wire.Request{TaskID: "t", Push: full}},
		{"push set 0.3 with an id beside", v03 + "CreateTaskPushNotificationConfig", pb{}.str(1, "tasks/t").str(2, "beside").msg(3, pb{}.msg(2, pb{}.str(2, "http://u"))), wire.Request{TaskID: "t", Push: &wire.Push{ID: "beside", URL: "http://u"}}},
		{"push set 0.3 of nothing", v03 + "CreateTaskPushNotificationConfig", pb{}.str(1, "tasks/t"), wire.Request{TaskID: "t"}},
		{"push get 0.3", v03 + "GetTaskPushNotificationConfig", pb{}.str(1, "tasks/t/pushNotificationConfigs/p"), wire.Request{TaskID: "t"}},
		{"push get 0.3 without an id", v03 + "GetTaskPushNotificationConfig", pb{}.str(1, "tasks/t/pushNotificationConfigs/"), wire.Request{TaskID: "t"}},
		{"push get 0.3 by the task", v03 + "GetTaskPushNotificationConfig", pb{}.str(1, "tasks/t"), wire.Request{TaskID: "t"}},
		{"push list 0.3", v03 + "ListTaskPushNotificationConfig", pb{}.str(1, "tasks/t"), wire.Request{TaskID: "t"}},
		{"push delete 0.3", v03 + "DeleteTaskPushNotificationConfig", pb{}.str(1, "tasks/t/pushNotificationConfigs/p"), wire.Request{TaskID: "t"}},
		{"card 0.3", v03 + "GetAgentCard", nil, wire.Request{}},

		{"not ours", "/grpc.health.v1.Health/Check", pb("\xff"), wire.Request{}},
		{"not ours, but of the service", v10 + "Unheard", pb("\xff"), wire.Request{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, _ := wire.MatchGRPC(tt.path)
			tt.want.Method, tt.want.Binding, tt.want.Version, tt.want.Op = tt.path, wire.GRPC, m.Version, m.Op
			if strings.HasPrefix(tt.path, v10) {
				tt.want.Version = wire.V10
			}
			got := *readProto(t, tt.path, tt.msg)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(got)); diff != "" {
				t.Errorf("ReadProto(%s, %x) (-want +got):\n%s", tt.path, tt.msg, diff)
			}
		})
	}
}

func TestReadProtoRefuses(t *testing.T) {
	t.Parallel()
	const parse, invalid = wire.CodeParse, wire.CodeInvalid
	for _, tt := range []struct {
		name, path string
		msg        pb
		code       int
		what       string
	}{
		{"no message", v10 + "SendMessage", nil, invalid, "message is missing"},
		{"message of another version", v10 + "SendMessage", message03(m1), invalid, "message is missing"},
		{"no message id", v10 + "SendMessage", message10(pb{}.str(2, "c")), invalid, "message.message_id is missing"},
		{"empty message id", v10 + "SendMessage", message10(pb{}.str(1, "")), invalid, "message.message_id is missing"},
		{"empty message", v10 + "SendMessage", message10(nil), invalid, "message.message_id is missing"},

		{"message twice", v10 + "SendMessage", slices.Concat(message10(m1), message10(m1)), invalid, "message occurs twice"},
		{"message twice 0.3", v03 + "SendMessage", slices.Concat(message03(m1), message03(nil)), invalid, "message occurs twice"},
		{"context twice", v10 + "SendMessage", message10(m1.str(2, "a").str(2, "b")), invalid, "message.context_id occurs twice"},
		{"context twice, once empty", v10 + "SendMessage", message10(m1.str(2, "").str(2, "b")), invalid, "message.context_id occurs twice"},
		{"task twice", v10 + "SendMessage", message10(m1.str(3, "a").str(3, "a")), invalid, "message.task_id occurs twice"},
		{"metadata twice", v10 + "SendMessage", message10(m1.msg(6, nil).msg(6, nil)), invalid, "message.metadata occurs twice"},
		{"configuration twice", v10 + "SendMessage", message10(m1).msg(3, nil).msg(3, nil), invalid, "configuration occurs twice"},
		{"push twice", v10 + "SendMessage", message10(m1).msg(3, pb{}.msg(2, nil).msg(2, nil)), invalid, "configuration.task_push_notification_config occurs twice"},
		{"push twice 0.3", v03 + "SendMessage", message03(m1).msg(2, pb{}.msg(2, nil).msg(2, nil)), invalid, "configuration.push_notification occurs twice"},
		{"url twice", v10 + "CreateTaskPushNotificationConfig", pb{}.str(4, "a").str(4, "b"), invalid, "url occurs twice"},
		{"id twice", v10 + "GetTask", pb{}.str(2, "a").str(2, "b"), invalid, "id occurs twice"},
		{"name twice", v03 + "GetTask", pb{}.str(1, "tasks/a").str(1, "tasks/b"), invalid, "name occurs twice"},
		{"list context twice", v10 + "ListTasks", pb{}.str(2, "a").str(2, "b"), invalid, "context_id occurs twice"},

		{"context a number", v10 + "SendMessage", message10(m1.num(2, 7)), invalid, "message.context_id has a foreign wire type"},
		{"context also a number", v10 + "SendMessage", message10(m1.str(2, "c").num(2, 7)), invalid, "message.context_id has a foreign wire type"},
		{"message a group", v10 + "SendMessage", append(pb{}, 0x13, 0x14), invalid, "message has a foreign wire type"},
		{"name a number", v03 + "GetTask", pb{}.num(1, 7), invalid, "name has a foreign wire type"},

		{"context not UTF-8", v10 + "SendMessage", message10(m1.str(2, "\xff")), invalid, "message.context_id is not valid UTF-8"},
		{"url not UTF-8", v10 + "CreateTaskPushNotificationConfig", pb{}.str(4, "\xff"), invalid, "url is not valid UTF-8"},
		{"context with a control character", v10 + "SendMessage", message10(m1.str(2, "a\nb")), invalid, "message.context_id contains a control character"},
		{"message id too long", v10 + "SendMessage", message10(pb{}.str(1, strings.Repeat("x", wire.MaxID+1))), invalid, "message.message_id is longer than 512 bytes"},
		{"task with a space", v10 + "GetTask", pb{}.str(2, " t"), invalid, "task_id begins or ends with a space"},
		{"task in a name", v03 + "GetTask", pb{}.str(1, "tasks/t\x00"), invalid, "the task in the resource name contains a control character"},
		{"push id", v10 + "CreateTaskPushNotificationConfig", pb{}.str(2, "p\n"), invalid, "the id of the push configuration contains a control character"},
		{"push id beside", v03 + "CreateTaskPushNotificationConfig", pb{}.str(1, "tasks/t").str(2, "p\n").msg(3, pb{}.msg(2, nil)), invalid, "config_id contains a control character"},

		{"name without tasks/", v03 + "GetTask", pb{}.str(1, "t"), invalid, "the resource name is not that of a task"},
		{"name with more before", v03 + "GetTask", pb{}.str(1, "x/tasks/t"), invalid, "the resource name is not that of a task"},
		{"name with two tasks", v03 + "GetTask", pb{}.str(1, "tasks/a/tasks/b"), invalid, "the resource name is not that of a task"},
		{"name with no task", v03 + "GetTask", pb{}.str(1, "tasks//tasks/b"), invalid, "the resource name is not that of a task"},
		{"name of a configuration", v03 + "GetTask", pb{}.str(1, "tasks/t/pushNotificationConfigs/p"), invalid, "the resource name is not that of a task"},
		{"configuration of no task", v03 + "GetTaskPushNotificationConfig", pb{}.str(1, "tasks//pushNotificationConfigs/p"), invalid, "the resource name is not that of a task"},
		{"configuration with more", v03 + "GetTaskPushNotificationConfig", pb{}.str(1, "tasks/t/pushNotificationConfigs/p/tasks/u"), invalid, "the resource name is not that of a task"},
		{"something else of a task", v03 + "GetTaskPushNotificationConfig", pb{}.str(1, "tasks/t/others/p"), invalid, "the resource name is not that of a task"},
		{"parent and name differ", v03 + "CreateTaskPushNotificationConfig", pb{}.str(1, "tasks/t").msg(3, pb{}.str(1, "tasks/u/pushNotificationConfigs/p")), invalid, "config.name is that of another task than parent"},

		{"cut in a tag", v10 + "GetTask", pb{0x92}, parse, "body is not protobuf: it ends early at byte 0"},
		{"cut in a value", v10 + "GetTask", pb{}.str(2, "t")[:2], parse, "body is not protobuf: it ends early at byte 0"},
		{"cut in the message", v10 + "SendMessage", message10(append(m1, 0x12, 0x05)), parse, "body is not protobuf: it ends early at byte 6 in message"},
		{"field number 0", v10 + "GetTask", pb{0x02, 0x00}, parse, "body is not protobuf: syntax error at byte 0"},
		{"field number too big", v10 + "GetTask", append(protowire.AppendVarint(nil, 1<<32|2<<3|2), 0x00), parse, "body is not protobuf: syntax error at byte 0"},
		{"group without an end", v10 + "GetTask", protowire.AppendTag(nil, 99, protowire.StartGroupType), parse, "body is not protobuf: it ends early at byte 0"},
		{"group without a start", v10 + "GetTask", protowire.AppendTag(nil, 99, protowire.EndGroupType), parse, "body is not protobuf: syntax error at byte 0"},
		{"reserved wire type", v10 + "GetTask", pb{0x17}, parse, "body is not protobuf: syntax error at byte 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, _ := wire.MatchGRPC(tt.path)
			_, err := wire.ReadProto(tt.path, tt.msg)
			var got *wire.Error
			if !errors.As(err, &got) {
				t.Fatalf("ReadProto(%s, %x) = %v, want an *Error", tt.path, tt.msg, err)
			}
			want := wire.Error{Code: tt.code, Op: m.Op, Version: m.Version, What: tt.what}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("ReadProto(%s, %x) (-want +got):\n%s", tt.path, tt.msg, diff)
			}
		})
	}
}
