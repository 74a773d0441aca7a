package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ReadProtoResponse reads an answer to a gRPC call: a unary one, or one message
// of a stream. It is as tolerant as ReadResponse is, and where a field occurs
// again it counts as protobuf has it. Answers that say nothing about a task or
// a message are UpdateOther and not looked at. An error means that msg is not
// protobuf, or, if it is ErrTooLong, that it is not read; it does not quote msg.
func ReadProtoResponse(v Version, op Op, msg []byte) (Update, error) {
	j := newProtoJSON(msg, 0)
	switch d := v.dialect(); {
	case op == OpSend:
		j.message(msg, d.unary)
	case op.Streaming():
		j.message(msg, d.stream)
	case op == OpGet || op == OpCancel:
		// In a wrapper it is a task for certain, whatever it lacks.
		j.out = append(j.out, `{"task":`...)
		j.message(msg, d.task)
		j.out = append(j.out, '}')
	case op == OpList:
		j.out = append(j.out, `{"tasks":`...)
		j.array(msg, &d.tasks)
		j.out = append(j.out, '}')
	default:
		return Update{}, nil
	}
	switch {
	case errors.Is(j.err, ErrTooLong):
		return Update{}, j.err
	case j.err != nil:
		return Update{}, fmt.Errorf("response is not protobuf: %w", j.err)
	}
	return readUpdate(j.out, (*Update).result)
}

// protoParts returns the parts of a message as a JSON array, nil if there are
// none.
func protoParts(v Version, message []byte) ([]byte, error) {
	schema := v.dialect().message
	parts, _ := schema.find(protoField{num: messageParts, typ: protowire.BytesType})
	// JSON has a few bytes more to a part than protobuf has.
	j := newProtoJSON(message, len(message)/16)
	j.array(message, &schema[parts])
	if j.err != nil || len(j.out) <= len("[]") {
		return nil, j.err
	}
	return j.out, nil
}
