// Package sse watches server-sent events going by, and writes one.
//
// It knows the event stream format of the WHATWG HTML standard ("Server-sent
// events", §9.2.6) and nothing of what the events say. The Scanner is a tap:
// it is shown the bytes of a stream in whatever chunks they travel, and never
// holds them up, changes them, or fails.
//
//	agent ──chunk──┬──▶ caller       the same bytes, at once
//	               └──▶ Scanner ──emit──▶ what is recorded
package sse

import (
	"bytes"
	"strings"
)

// Event is one event of a stream.
type Event struct {
	// ID is the stream's last event id: the one this event set, or else that of
	// an earlier event. Empty if there is none.
	ID string
	// Type is the event field, as sent. Empty if there is none, which a browser
	// calls "message".
	Type string
	// Data is the data lines, joined by line feeds. In an emitted event it
	// aliases an internal buffer or the chunk written, and is valid during the
	// callback only. It may be empty. Its bytes are as sent: UTF-8 is not
	// checked.
	Data []byte
}

// AppendEvent appends e in the stream format to dst, the blank line that ends
// it included. Line breaks in the data split it into several data lines, and
// so come back from a parser as line feeds; single-line data is safer, because
// some clients do not join lines. An id or a type that no line can carry (it
// holds a line break, or the id a NUL) is left out.
func AppendEvent(dst []byte, e Event) []byte {
	if e.ID != "" && !strings.ContainsAny(e.ID, "\r\n\x00") {
		dst = append(dst, "id: "...)
		dst = append(dst, e.ID...)
		dst = append(dst, '\n')
	}
	if e.Type != "" && !strings.ContainsAny(e.Type, "\r\n") {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Type...)
		dst = append(dst, '\n')
	}
	rest := e.Data
	for {
		dst = append(dst, "data: "...)
		end := bytes.IndexAny(rest, "\r\n")
		if end < 0 {
			dst = append(dst, rest...)
			return append(dst, "\n\n"...)
		}
		dst = append(dst, rest[:end]...)
		dst = append(dst, '\n')
		if rest[end] == '\r' && end+1 < len(rest) && rest[end+1] == '\n' {
			end++
		}
		rest = rest[end+1:]
	}
}
