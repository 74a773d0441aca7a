package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// RewriteProtoPush points the push notifications that an answer to OpPushSet,
// OpPushGet or OpPushList speaks of somewhere else. It calls each with every
// URL that is not empty, and puts what that returns in its place. Everything
// else stays byte for byte; an answer that needs no change, which those to all
// other operations are, is returned itself: the same slice. An error means that
// msg is not protobuf; it does not quote msg.
func RewriteProtoPush(v Version, op Op, msg []byte, each func(url string) string) ([]byte, error) {
	path := []protowire.Number{4} // TaskPushNotificationConfig.url
	if v == V03 {
		path = []protowire.Number{2, 2} // push_notification_config.url
	}
	switch op {
	case OpPushSet, OpPushGet:
	case OpPushList:
		path = append([]protowire.Number{1}, path...) // configs
	default:
		return msg, nil
	}
	edits, _, err := rewriteProto(nil, msg, span{0, len(msg)}, path, each)
	if err != nil {
		return nil, fmt.Errorf("push configuration is not protobuf: %w", err)
	}
	if len(edits) == 0 {
		return msg, nil
	}
	return apply(msg, edits), nil
}

// rewriteProto adds the edits, in order, that put every string at a path of
// field numbers through each. It returns by how much the message in that span
// grows.
func rewriteProto(edits []edit, src []byte, in span, path []protowire.Number, each func(string) string) (_ []edit, grown int, err error) {
	r := newProtoReader(src, in)
	for r.next() {
		f := r.field
		if f.num != path[0] || f.typ != protowire.BytesType {
			continue
		}
		length := len(edits)
		edits = append(edits, edit{}) // the length comes before what is in it
		by := 0
		if len(path) > 1 {
			if edits, by, err = rewriteProto(edits, src, f.value, path[1:], each); err != nil {
				return nil, 0, err
			}
		} else if was := string(f.value.of(src)); was != "" {
			if now := strings.ToValidUTF8(each(was), "\uFFFD"); now != was {
				edits = append(edits, edit{f.value, []byte(now)})
				by = len(now) - len(was)
			}
		}
		if len(edits) == length+1 {
			edits = edits[:length]
			continue
		}
		prefix := protowire.AppendVarint(nil, uint64(f.value.end-f.value.start+by))
		edits[length] = edit{f.length, prefix}
		grown += by + len(prefix) - (f.length.end - f.length.start)
	}
	return edits, grown, r.err
}
