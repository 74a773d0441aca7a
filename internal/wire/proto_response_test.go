package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// sdkUpdate is what an answer says as the SDK's types have it. Its raw JSON
// stands apart, as messages.
type sdkUpdate struct {
	wire.Update
	parts     protoreflect.Message // what the parts are in
	metadata  protoreflect.Message
	artifacts []protoreflect.Message
	tasks     []sdkUpdate
}

// updateOf reads an answer by the SDK's types.
func updateOf(op wire.Op, m protoreflect.Message) sdkUpdate {
	switch {
	case op == wire.OpGet || op == wire.OpCancel:
		return taskOf(m)
	case op == wire.OpList:
		u := sdkUpdate{Update: wire.Update{Kind: wire.UpdateTasks}}
		for _, task := range listOf(m, "tasks") {
			u.tasks = append(u.tasks, taskOf(task))
		}
		return u
	case !op.Sends() && op != wire.OpSubscribe:
		return sdkUpdate{}
	}
	payload := m.WhichOneof(m.Descriptor().Oneofs().ByName("payload"))
	if payload == nil {
		return sdkUpdate{}
	}
	in := m.Get(payload).Message()
	u := sdkUpdate{Update: wire.Update{TaskID: str(in, "task_id"), ContextID: str(in, "context_id")}, metadata: sub(in, "metadata")}
	switch payload.Name() {
	case "task":
		return taskOf(in)
	case "message", "msg":
		u.Kind, u.MessageID, u.parts = wire.UpdateMessage, str(in, "message_id"), in
	case "status_update":
		u.Kind = wire.UpdateStatus
		u.status(sub(in, "status"))
	case "artifact_update":
		u.Kind = wire.UpdateArtifact
		if a := sub(in, "artifact"); a.IsValid() {
			u.artifacts = []protoreflect.Message{a}
		}
		u.Append = in.Get(in.Descriptor().Fields().ByName("append")).Bool()
		u.LastChunk = in.Get(in.Descriptor().Fields().ByName("last_chunk")).Bool()
	}
	return u
}

func taskOf(m protoreflect.Message) sdkUpdate {
	u := sdkUpdate{
		Update:    wire.Update{Kind: wire.UpdateTask, TaskID: str(m, "id"), ContextID: str(m, "context_id")},
		metadata:  sub(m, "metadata"),
		artifacts: listOf(m, "artifacts"),
	}
	u.status(sub(m, "status"))
	return u
}

// states are those of the enum, by their numbers.
var states = []wire.TaskState{
	wire.TaskUnknown, wire.TaskSubmitted, wire.TaskWorking, wire.TaskCompleted, wire.TaskFailed,
	wire.TaskCanceled, wire.TaskInputRequired, wire.TaskRejected, wire.TaskAuthRequired,
}

func (u *sdkUpdate) status(m protoreflect.Message) {
	if !m.IsValid() {
		return
	}
	if n := m.Get(m.Descriptor().Fields().ByName("state")).Enum(); n >= 0 && int(n) < len(states) {
		u.State = states[n]
	}
	if ts := sub(m, "timestamp"); ts.IsValid() {
		if at := ts.Interface().(*timestamppb.Timestamp); at.IsValid() {
			u.Timestamp = at.AsTime().Format(time.RFC3339Nano)
		}
	}
	message := sub(m, "message", "update")
	u.MessageID, u.parts = str(message, "message_id"), message
}

func listOf(m protoreflect.Message, name protoreflect.Name) []protoreflect.Message {
	f := fieldOf(m, []protoreflect.Name{name})
	if f == nil {
		return nil
	}
	var all []protoreflect.Message
	for i := range m.Get(f).List().Len() {
		all = append(all, m.Get(f).List().Get(i).Message())
	}
	return all
}

// checkUpdate compares what was read with what the SDK says.
func checkUpdate(t errorer, got wire.Update, want sdkUpdate) {
	t.Helper()
	plain := got
	plain.Artifacts, plain.Parts, plain.Metadata, plain.Tasks = nil, nil, nil, nil
	if at, err := time.Parse(time.RFC3339Nano, plain.Timestamp); err == nil {
		plain.Timestamp = at.Format(time.RFC3339Nano) // without the zeros
	}
	if diff := cmp.Diff(want.Update, plain); diff != "" {
		t.Errorf("ReadProtoResponse() (-want +got):\n%s", diff)
	}
	checkParts(t, got.Parts, want.parts)
	if want.metadata != nil && want.metadata.IsValid() {
		if diff := cmp.Diff(asObject(t, want.metadata), object(t, got.Metadata)); diff != "" {
			t.Errorf("ReadProtoResponse().Metadata (-want +got):\n%s", diff)
		}
	} else if got.Metadata != nil {
		t.Errorf("ReadProtoResponse().Metadata = %s, want none", got.Metadata)
	}
	if len(got.Artifacts) != len(want.artifacts) || len(got.Tasks) != len(want.tasks) {
		t.Fatalf("ReadProtoResponse() has %d artifacts and %d tasks, want %d and %d",
			len(got.Artifacts), len(got.Tasks), len(want.artifacts), len(want.tasks))
	}
	for i, a := range want.artifacts {
		if got := got.Artifacts[i]; got.ID != str(a, "artifact_id") || got.Name != str(a, "name") {
			t.Errorf("artifact %d = %q %q, want %q %q", i, got.ID, got.Name, str(a, "artifact_id"), str(a, "name"))
		}
		checkParts(t, got.Artifacts[i].Parts, a)
	}
	for i := range want.tasks {
		checkUpdate(t, got.Tasks[i], want.tasks[i])
	}
}

// checkParts compares raw parts with those in the SDK's message or artifact.
func checkParts(t errorer, raw []byte, in protoreflect.Message) {
	t.Helper()
	var want []wire.Part
	if in != nil {
		for _, p := range listOf(in, "parts") {
			want = append(want, partOf(t, p))
		}
	}
	got, err := wire.ReadParts(raw)
	if err != nil {
		t.Fatalf("ReadParts(%s) = %v, want no error", raw, err)
	}
	sameJSON := cmp.Transformer("json", func(b json.RawMessage) any { return object(t, b) })
	asRaw := cmp.Transformer("raw", func(p wire.Part) any {
		data := json.RawMessage(p.Data)
		p.Data = nil
		return struct {
			Part wire.Part
			Data json.RawMessage
		}{p, data}
	})
	plainParts := cmp.FilterPath(func(p cmp.Path) bool { return len(p) <= 2 }, asRaw)
	if diff := cmp.Diff(want, got, plainParts, sameJSON); diff != "" {
		t.Errorf("ReadParts(%s) (-want +got):\n%s", raw, diff)
	}
}

// partOf is a part as a record has it, by the SDK's types.
func partOf(t fataler, m protoreflect.Message) wire.Part {
	t.Helper()
	var p wire.Part
	of := m
	switch content := m.WhichOneof(m.Descriptor().Oneofs().Get(0)); {
	case content == nil:
	case content.Name() == "text":
		p.Kind, p.Text = "text", m.Get(content).String()
	case content.Name() == "data":
		data := m.Get(content).Message()
		if inner := fieldOf(data, []protoreflect.Name{"data"}); inner != nil {
			data = data.Get(inner).Message() // 0.3
		}
		p.Kind, p.Data = "data", marshalAny(t, asObject(t, data))
	default:
		p.Kind = "file"
		if content.Name() == "file" { // 0.3
			of = m.Get(content).Message()
			content = of.WhichOneof(of.Descriptor().Oneofs().Get(0))
		}
		switch {
		case content == nil:
		case content.Kind() == protoreflect.BytesKind:
			b := of.Get(content).Bytes()
			if decoded, err := base64.StdEncoding.Strict().DecodeString(string(b)); err == nil && of != m && len(b) > 0 && !bytes.ContainsAny(b, "\r\n") {
				b = decoded
			}
			sum := sha256.Sum256(b)
			p.Bytes, p.SHA256 = len(b), hex.EncodeToString(sum[:])
		default:
			p.URI = of.Get(content).String()
		}
	}
	if p.Kind == "file" || of.Descriptor().Fields().ByName("filename") != nil {
		p.Name, p.MediaType = str(of, "filename", "name"), str(of, "media_type", "mime_type")
	}
	return p
}

func marshalAny(t fataler, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("Marshal(%v) = %v", v, err)
	}
	return b
}

// Whatever an SDK can answer is read as it reads it.
func TestProtoResponseProperty(t *testing.T) {
	t.Parallel()
	for _, m := range sdkMethods(t) {
		t.Run(m.Name[1:], func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				drawn := drawMessage(t, m.desc.Output(), 8)
				msg := shuffled(t, marshal(t, drawn), m.desc.Output())
				got, err := wire.ReadProtoResponse(m.Version, m.Op, msg)
				if err != nil {
					t.Fatalf("ReadProtoResponse(%v %v, %v) = %v, want no error", m.Version, m.Op, drawn, err)
				}
				// Fields of a list that were shuffled are in another order.
				again := unmarshal(t, msg, m.response())
				checkUpdate(t, got, updateOf(m.Op, again.ProtoReflect()))
			})
		})
	}
}

// FuzzReadProtoResponse reads what no encoder would write, too: where the SDK
// can read it, we do, and in the same way.
func FuzzReadProtoResponse(f *testing.F) {
	methods := sdkMethods(f)
	for n, m := range methods {
		for _, msg := range protoSeeds(f, "answers", m.Name) {
			f.Add(n, msg)
		}
	}
	f.Add(0, []byte(pb{}.msg(1, pb{}.str(1, "a")).msg(2, pb{}.str(1, "m")).msg(1, pb{}.msg(3, pb{}.num(1, 2)).msg(3, pb{}.num(1, 3)))))
	f.Fuzz(func(t *testing.T, n int, msg []byte) {
		if n < 0 || n >= len(methods) {
			return
		}
		m := methods[n]
		got, err := wire.ReadProtoResponse(m.Version, m.Op, msg)
		sdk := m.response()
		if proto.Unmarshal(msg, sdk) != nil {
			return
		}
		if err != nil {
			t.Fatalf("ReadProtoResponse(%v %v, %x) = %v, want no error: the SDK reads it", m.Version, m.Op, msg, err)
		}
		want := updateOf(m.Op, sdk.ProtoReflect())
		if got.Kind != want.Kind || got.TaskID != want.TaskID || got.ContextID != want.ContextID || got.MessageID != want.MessageID ||
			got.State != want.State || len(got.Artifacts) != len(want.artifacts) || len(got.Tasks) != len(want.tasks) {
			t.Errorf("ReadProtoResponse(%v %v, %x) = %+v, want %+v", m.Version, m.Op, msg, got, want)
		}
		if _, err := wire.ReadParts(got.Parts); err != nil {
			t.Errorf("ReadParts(%s) = %v, want no error", got.Parts, err)
		}
		for _, rewrite := range []func() ([]byte, error){
			func() ([]byte, error) {
				return wire.RewriteProtoPush(m.Version, m.Op, msg, func(url string) string { return url })
			},
			func() ([]byte, error) {
				return wire.RewriteProtoCard(m.Version, msg, func(_, url string) (string, bool) { return url, true })
			},
		} {
			if out, err := rewrite(); err == nil && !same(out, msg) {
				t.Errorf("a rewrite of %x that changes nothing = %x, want the message itself", msg, out)
			}
		}
	})
}
