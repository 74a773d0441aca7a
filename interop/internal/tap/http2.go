package tap

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// parse2 reads a connection of HTTP/2: each direction by itself, put together
// by the numbers of the streams.
func parse2(c Conn) ([]Exchange, error) {
	streams := map[uint32]*Exchange{}
	sent := direction{Recording: c.Sent, skip: len(http2.ClientPreface)}
	err := sent.read(func(id uint32, at int64) *half {
		e := streams[id]
		if e == nil {
			e = &Exchange{Seq: at, Proto: "HTTP/2.0", Request: Half{Truncated: true}, Response: Half{Truncated: true}}
			streams[id] = e
		}
		return &half{Half: &e.Request, pseudo: func(name, value string) {
			switch name {
			case ":method":
				e.Method = value
			case ":path":
				e.Target = value
			case ":authority":
				e.Authority = value
			}
		}}
	})
	received := direction{Recording: c.Received}
	err = cmp.Or(err, received.read(func(id uint32, _ int64) *half {
		e := streams[id]
		if e == nil {
			return nil // the recording of the request broke off before it
		}
		return &half{Half: &e.Response, pseudo: func(_, value string) {
			e.Status, _ = strconv.Atoi(value) // the only pseudo-header of answers; 0 stands out
		}}
	}))
	all := make([]Exchange, 0, len(streams))
	for _, id := range slices.Sorted(maps.Keys(streams)) {
		all = append(all, *streams[id])
	}
	return all, err
}

// half is one direction of a stream.
type half struct {
	*Half  // Truncated until its end was seen
	pseudo func(name, value string)
}

// headers takes a block of headers: the first, or the trailers. Interim answers
// are forgotten.
func (h *half) headers(fields []hpack.HeaderField) {
	into := http.Header{}
	for _, f := range fields {
		if f.IsPseudo() {
			h.pseudo(f.Name, f.Value)
		} else {
			into.Add(f.Name, f.Value)
		}
	}
	if len(fields) > 0 && fields[0].Name == ":status" && fields[0].Value < "200" {
		return
	}
	if h.Header == nil {
		h.Header = into
	} else {
		h.Trailer = into
	}
}

// direction is one direction of a connection.
type direction struct {
	Recording
	skip int
}

// maxTable is above any size of the dynamic table that peers agree on.
const maxTable = 1 << 24

// read hands each frame to its stream, as far as the recording goes.
func (d direction) read(stream func(id uint32, at int64) *half) error {
	source := bytes.NewReader(d.Bytes[d.skip:])
	framer := http2.NewFramer(io.Discard, source)
	framer.SetMaxReadFrameSize(1<<24 - 1)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.ReadMetaHeaders.SetAllowedMaxDynamicTableSize(maxTable)
	for {
		at := d.at(len(d.Bytes) - source.Len())
		frame, err := framer.ReadFrame()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			h := stream(frame.StreamID, at)
			if h == nil {
				continue
			}
			h.headers(frame.Fields)
			h.Truncated = !frame.StreamEnded()
		case *http2.DataFrame:
			h := stream(frame.StreamID, at)
			if h == nil {
				continue
			}
			h.Body = append(h.Body, frame.Data()...)
			h.Truncated = !frame.StreamEnded()
		}
	}
}
