package proxy

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	a2av0 "github.com/a2aproject/a2a-go/a2apb"
	a2av1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// Headers and trailers of gRPC over HTTP/2, in canonical form.
const (
	grpcEncoding = "Grpc-Encoding"
	grpcStatus   = "Grpc-Status"
	grpcMessage  = "Grpc-Message"
	grpcDetails  = "Grpc-Status-Details-Bin"
)

// isGRPC reports whether a request is a gRPC call, of A2A or not.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && saysGRPC(r)
}

// saysGRPC reports whether a request calls its body gRPC, as servers read that.
func saysGRPC(r *http.Request) bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == typeGRPC || strings.HasPrefix(media, typeGRPC+"+")
}

// isGRPCMethod reports whether a path, escaped or not, is that of a method of
// A2A. gRPC knows no escapes, but servers that stand on one of HTTP undo them.
func isGRPCMethod(path string) bool {
	if unescaped, err := url.PathUnescape(path); err == nil {
		path = unescaped
	}
	_, ok := wire.MatchGRPC(path)
	return ok
}

// posesAsGRPC reports whether a request that is no gRPC call may yet be one to
// its agent: what the sidecar does not read must not reach a method of A2A.
func posesAsGRPC(r *http.Request, path string) bool { return saysGRPC(r) && isGRPCMethod(path) }

// frames is the body of a gRPC request that passes unread. It breaks off if it
// does not begin as one: its agent might take it for something else.
type frames struct {
	io.ReadCloser
	begun bool
}

var errNoFrame = errors.New("request body is not gRPC")

func (f *frames) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if n > 0 && !f.begun {
		if p[0] > 1 { // the flag of a frame: compressed or not (gRPC over HTTP/2, "Requests")
			return 0, errNoFrame
		}
		f.begun = true
	}
	return n, err
}

// grpcBinding is the gRPC binding (A2A 0.3 §3.2.2, 1.0 §10).
type grpcBinding struct {
	maxBody int64 // of a request, unpacked, in bytes; 0: DefaultMaxBody
}

func (b grpcBinding) read(r *http.Request, rest string, body []byte) (*wire.Request, error) {
	method, ok := wire.MatchGRPC(rest)
	bad := func(what string) error {
		return &wire.Error{Code: wire.CodeInvalid, Op: method.Op, Version: method.Version, What: what}
	}
	if !ok {
		return nil, bad("path is escaped, which gRPC knows nothing of")
	}
	packed, message, err := grpcframe.Split(body)
	if err != nil {
		return nil, bad(err.Error())
	}
	if packed {
		message, err = unpackAll(r.Header.Get(grpcEncoding), message, int(cmp.Or(b.maxBody, DefaultMaxBody)))
		if errors.Is(err, errTooLarge) {
			return nil, err
		}
		if err != nil {
			return nil, bad("message is compressed: " + err.Error())
		}
	}
	return wire.ReadProto(rest, message)
}

// encode frames a message. It goes uncompressed even where the stream's other
// messages are not: a flag on each says so.
func (grpcBinding) encode(message []byte) []byte { return grpcframe.Append(nil, message) }

func (grpcBinding) reading(req *wire.Request, resp *http.Response) reading {
	return newGRPCReading(req, resp)
}

func (grpcBinding) rewriteCard(req *wire.Request, body []byte, each func(binding, url string) (string, bool)) ([]byte, error) {
	return editFrame(body, func(message []byte) ([]byte, error) {
		return wire.RewriteProtoCard(req.Version, message, each)
	})
}

func (grpcBinding) rewritePush(req *wire.Request, body []byte, each func(url string) string) ([]byte, error) {
	return editFrame(body, func(message []byte) ([]byte, error) {
		return wire.RewriteProtoPush(req.Version, req.Op, message, each)
	})
}

// editFrame edits the message of an answer of one message. One without any,
// such as an error, stays; so does one that is compressed, which nobody asked
// for: see [wantPlain].
func editFrame(body []byte, edit func(message []byte) ([]byte, error)) ([]byte, error) {
	if len(body) == 0 {
		return body, nil
	}
	packed, message, err := grpcframe.Split(body)
	if err != nil {
		return nil, err
	}
	if packed {
		return nil, errors.New("message is compressed")
	}
	edited, err := edit(message)
	if err != nil || len(edited) == len(message) && (len(edited) == 0 || &edited[0] == &message[0]) {
		return body, err
	}
	return grpcframe.Append(nil, edited), nil
}

func (grpcBinding) asked(*http.Request) asked { return asked{} }

// fault answers with a status and no message: headers alone (Trailers-Only).
func (grpcBinding) fault(w http.ResponseWriter, _ asked, f fault) error {
	details, err := f.details()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", typeGRPC)
	h.Set(grpcStatus, strconv.Itoa(int(f.grpc)))
	h.Set(grpcMessage, percentEncode(f.message))
	h.Set(grpcDetails, base64.RawStdEncoding.EncodeToString(details))
	w.WriteHeader(http.StatusOK)
	return nil
}

// details is f as an encoded google.rpc.Status.
func (f fault) details() ([]byte, error) {
	s := &status.Status{Code: int32(f.grpc), Message: f.message}
	all := []proto.Message{&errdetails.ErrorInfo{Reason: string(f.reason), Domain: errorDomain, Metadata: f.metadata}}
	if f.retry {
		all = append(all, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay)})
	}
	if f.quota {
		all = append(all, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: f.subject(), Description: f.message},
		}})
	}
	for _, m := range all {
		packed, err := anypb.New(m)
		if err != nil {
			return nil, err
		}
		s.Details = append(s.Details, packed)
	}
	return proto.Marshal(s)
}

// percentEncode spells a grpc-message (gRPC over HTTP/2, "Responses").
func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// percentDecode reads a grpc-message. What is wrongly encoded stays as it is.
func percentDecode(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

func (grpcBinding) task(w http.ResponseWriter, q asked, t failedTask) error {
	var m proto.Message
	at := timestamppb.New(t.at)
	if q.version == wire.V10 {
		task := &a2av1.Task{Id: t.id, ContextId: t.contextID, Status: &a2av1.TaskStatus{
			State: a2av1.TaskState_TASK_STATE_FAILED, Timestamp: at,
			Message: &a2av1.Message{
				MessageId: t.messageID, TaskId: t.id, ContextId: t.contextID, Role: a2av1.Role_ROLE_AGENT,
				Parts: []*a2av1.Part{{Content: &a2av1.Part_Text{Text: t.words}}},
			},
		}}
		// Both kinds of answer have the task under the same number.
		m = &a2av1.SendMessageResponse{Payload: &a2av1.SendMessageResponse_Task{Task: task}}
	} else {
		task := &a2av0.Task{Id: t.id, ContextId: t.contextID, Status: &a2av0.TaskStatus{
			State: a2av0.TaskState_TASK_STATE_FAILED, Timestamp: at,
			Update: &a2av0.Message{
				MessageId: t.messageID, TaskId: t.id, ContextId: t.contextID, Role: a2av0.Role_ROLE_AGENT,
				Parts: []*a2av0.Part{{Part: &a2av0.Part_Text{Text: t.words}}},
			},
		}}
		m = &a2av0.SendMessageResponse{Payload: &a2av0.SendMessageResponse_Task{Task: task}}
	}
	message, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", typeGRPC)
	h.Set(http.TrailerPrefix+grpcStatus, "0")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(grpcframe.Append(nil, message)) // a caller that has gone needs no answer
	return nil
}
