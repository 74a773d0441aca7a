// Package grpcframe takes gRPC messages out of their frames, and puts them in.
//
// It knows the length-prefixed message of gRPC over HTTP/2: one byte that says
// whether the message is compressed, four of its length, big-endian, and the
// message. It knows neither HTTP/2, nor compression, nor protobuf. The Scanner
// is a tap: it is shown the bytes of a body in whatever chunks they travel, and
// never holds them up, changes them, or fails.
//
//	agent ──chunk──┬──▶ caller       the same bytes, at once
//	               └──▶ Scanner ──emit──▶ what is recorded
//
// A request whose message must be read before it may pass goes through Split
// and Append instead.
package grpcframe

import (
	"encoding/binary"
	"errors"
	"slices"
)

// headerSize is that of a frame without its message.
const headerSize = 5

// The values of the first byte of a frame. The protocol has no others.
const (
	plain      = 0
	compressed = 1
)

// Append appends the frame of an uncompressed message to dst. The message must
// be shorter than 4 GiB, which is all that a frame has room for.
func Append(dst, msg []byte) []byte {
	dst = append(dst, plain)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(msg)))
	return append(dst, msg...)
}

// The faults of a body that Split refuses.
var (
	ErrTruncated = errors.New("the gRPC frame is cut short")
	ErrMore      = errors.New("more than one gRPC message")
	ErrFlag      = errors.New("the gRPC frame has an unknown flag")
)

// Split returns the message of a body that is exactly one frame, as that of
// every call of A2A is, and whether the message is compressed. It aliases the
// body. Any other body is an error: ErrTruncated, ErrMore or ErrFlag.
func Split(body []byte) (isCompressed bool, msg []byte, err error) {
	if len(body) < headerSize {
		return false, nil, ErrTruncated
	}
	if body[0] > compressed {
		return false, nil, ErrFlag
	}
	msg = body[headerSize:]
	switch size := uint64(binary.BigEndian.Uint32(body[1:])); {
	case uint64(len(msg)) < size:
		return false, nil, ErrTruncated
	case uint64(len(msg)) > size:
		return false, nil, ErrMore
	}
	return body[0] == compressed, slices.Clip(msg), nil
}
