package grpcframe

import (
	"encoding/binary"
	"slices"
)

// keep is the most of a buffer that waits for the next message: most messages
// are smaller, and streams that idle are many.
const keep = 64 << 10

// Scanner finds the messages in a body written to it. It is not for concurrent
// use. Make one with NewScanner.
//
// A message that arrives whole in one chunk is not copied. What is kept between
// chunks is bounded: at most one message, and no more of it than has arrived,
// whatever length its frame claims.
type Scanner struct {
	emit func(compressed bool, msg []byte)
	max  uint64

	header    [headerSize]byte
	have      int    // bytes of the header
	want      uint64 // bytes of the message that are still to come
	over      bool   // the message is longer than max, and is dropped
	lost      bool   // the body is not gRPC: nothing is looked for any more
	buf       []byte // the start of the message, from earlier chunks
	oversized int
}

// NewScanner returns a scanner that calls emit for each message, from within
// Write, as soon as its last byte is there. The message aliases an internal
// buffer or the chunk written, and is valid during the callback only. One that
// is longer than maxMessage bytes is not emitted, but counted.
func NewScanner(maxMessage int, emit func(compressed bool, msg []byte)) *Scanner {
	return &Scanner{emit: emit, max: uint64(max(maxMessage, 0))}
}

// Write shows the next bytes of the body to the scanner. It returns len(p) and
// no error, always, and does not keep p.
func (s *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !s.lost {
		if s.have < headerSize {
			took := copy(s.header[s.have:], p)
			s.have += took
			p = p[took:]
			if s.have < headerSize {
				break
			}
			s.begin()
		}
		if s.lost {
			break
		}
		part := p[:min(uint64(len(p)), s.want)]
		p = p[len(part):]
		s.want -= uint64(len(part))
		switch {
		case s.want == 0:
			s.end(part)
		case !s.over:
			s.hold(part)
		}
	}
	return n, nil
}

// begin reads a header that is complete.
func (s *Scanner) begin() {
	if s.header[0] > compressed {
		// Where the next frame starts can no longer be trusted. The peer gives
		// the call up here, too.
		s.lost = true
		return
	}
	s.want = uint64(binary.BigEndian.Uint32(s.header[1:]))
	if s.over = s.want > s.max; s.over {
		s.oversized++
	}
}

// hold keeps a part of a message until the rest of it comes. The buffer doubles,
// up to the length of the message, of which s.want is still to come.
func (s *Scanner) hold(part []byte) {
	if size := len(s.buf) + len(part); size > cap(s.buf) {
		room := min(uint64(max(size, 2*cap(s.buf))), uint64(size)+s.want)
		s.buf = append(make([]byte, 0, room), s.buf...)
	}
	s.buf = append(s.buf, part...)
}

// end takes the last part of a message.
func (s *Scanner) end(part []byte) {
	s.have = 0
	if s.over {
		return
	}
	if len(s.buf) > 0 {
		s.hold(part)
		part = s.buf
	}
	s.emit(s.header[0] == compressed, slices.Clip(part))
	s.buf = s.buf[:0]
	if cap(s.buf) > keep {
		s.buf = nil
	}
}

// Close tells that the body has ended. It reports whether it ended within a
// frame, or was not gRPC from some frame on.
func (s *Scanner) Close() (truncated bool) {
	return s.lost || s.have > 0
}

// Oversized returns how many messages were too long to be emitted.
func (s *Scanner) Oversized() int { return s.oversized }
