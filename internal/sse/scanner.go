package sse

import "bytes"

// bom is the byte order mark that may open a stream.
const bom = "\xEF\xBB\xBF"

// Scanner finds the events in a stream written to it. It is not for concurrent
// use. Make one with NewScanner.
//
// A whole event that arrives in one chunk is not copied. What is kept between
// chunks is bounded: at most one event's data and one unfinished line.
type Scanner struct {
	emit    func(Event)
	max     int // of an event's data
	maxLine int // of a line: what is longer is kept no further

	// Of the line at hand.
	line    []byte // its start, from earlier chunks
	skipLF  bool   // the last chunk ended in CR: an LF belongs to that line end
	started bool   // the first line of the stream has been seen

	// Of the event at hand.
	open    bool   // a field has been seen
	hasData bool   // a data field has been seen
	over    bool   // its data is longer than max, and is dropped
	typ     string // see lastTyp
	data    []byte // aliases the chunk or line, unless it is buf
	buf     []byte // data that spans chunks or lines
	owned   bool   // data is buf

	id        string // the last event id of the stream
	lastTyp   string // the last type met: repeated types need no new string
	oversized int
}

// NewScanner returns a scanner that calls emit for each event, from within
// Write. An event whose data is longer than maxEvent bytes is not emitted, but
// counted. Comments, retry fields and unknown ones are skipped, as are ids and
// types of more than maxEvent bytes; an event without data is none.
func NewScanner(maxEvent int, emit func(Event)) *Scanner {
	maxEvent = max(maxEvent, 0)
	return &Scanner{
		emit: emit,
		max:  maxEvent,
		// A line that is cut there still has a value longer than maxEvent, for
		// every field that is read. So cut or whole, it is too long.
		maxLine: maxEvent + len(bom) + len("event: ") + 1,
	}
}

// Write shows the next bytes of the stream to the scanner. It returns len(p)
// and no error, always, and does not keep p.
func (s *Scanner) Write(p []byte) (int, error) {
	i := 0
	if s.skipLF && len(p) > 0 {
		s.skipLF = false
		if p[0] == '\n' {
			i++
		}
	}
	lf := -1 // the next LF, looked for once however many CRs come before it
	for i < len(p) {
		if lf < i {
			if lf = bytes.IndexByte(p[i:], '\n'); lf < 0 {
				lf = len(p)
			} else {
				lf += i
			}
		}
		end := lf
		if cr := bytes.IndexByte(p[i:lf], '\r'); cr >= 0 {
			end = i + cr
		}
		if end == len(p) {
			break
		}
		s.endLine(p[i:end])
		i = end + 1
		if p[end] == '\r' {
			if i == len(p) {
				s.skipLF = true
			} else if p[i] == '\n' {
				i++
			}
		}
	}
	s.own() // before the buffers it may alias are reused
	s.hold(p[i:])
	return len(p), nil
}

// Close tells that the stream has ended. It reports whether an event was still
// open, which the format says is to be discarded.
func (s *Scanner) Close() (truncated bool) {
	return s.open || len(s.line) > 0 && s.line[0] != ':'
}

// Oversized returns how many events were too long to be emitted.
func (s *Scanner) Oversized() int { return s.oversized }

// hold keeps the start of a line until the rest of it comes.
func (s *Scanner) hold(part []byte) {
	if room := s.maxLine - len(s.line); len(part) > room {
		part = part[:room]
	}
	s.line = append(s.line, part...)
}

// endLine takes a line whose end is in the chunk; rest is what of it is, too.
func (s *Scanner) endLine(rest []byte) {
	line := rest
	if len(s.line) > 0 {
		s.hold(rest)
		line = s.line
		// Its bytes stay until the next hold, and by then data is owned.
		s.line = s.line[:0]
	}
	if !s.started {
		s.started = true
		line = bytes.TrimPrefix(line, []byte(bom))
	}
	switch {
	case len(line) == 0:
		s.dispatch()
	case line[0] == ':': // a comment
	default:
		s.open = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		s.field(name, value)
	}
}

// field takes one field of the event at hand. Names match exactly.
func (s *Scanner) field(name, value []byte) {
	switch string(name) {
	case "data":
		s.add(value)
	case "event":
		if len(value) <= s.max {
			if string(value) != s.lastTyp {
				s.lastTyp = string(value)
			}
			s.typ = s.lastTyp
		}
	case "id":
		// The standard ignores an id with a NUL in it.
		if len(value) <= s.max && bytes.IndexByte(value, 0) < 0 && string(value) != s.id {
			s.id = string(value)
		}
	}
}

// add adds a data line.
func (s *Scanner) add(value []byte) {
	size := len(value)
	if s.hasData {
		size += len(s.data) + 1
	}
	if s.over = s.over || size > s.max; s.over {
		s.hasData, s.data, s.owned = true, nil, false
		return
	}
	if !s.hasData {
		s.hasData, s.data = true, value
		return
	}
	s.own()
	s.buf = append(append(s.buf, '\n'), value...)
	s.data = s.buf
}

// own copies the data at hand, if it is not the scanner's own yet.
func (s *Scanner) own() {
	if s.hasData && !s.owned && !s.over {
		s.buf = append(s.buf[:0], s.data...)
		s.data, s.owned = s.buf, true
	}
}

// dispatch ends the event at hand.
func (s *Scanner) dispatch() {
	switch {
	case s.over:
		s.oversized++
	case s.hasData:
		s.emit(Event{ID: s.id, Type: s.typ, Data: s.data})
	}
	s.open, s.hasData, s.over, s.owned = false, false, false, false
	s.typ, s.data = "", nil
}
