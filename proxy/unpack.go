package proxy

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
)

// unpackers are the encodings that a tap can read, by their names in HTTP and in
// gRPC. Both take deflate for zlib's format.
var unpackers = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
}

// contentEncoding is how a body is packed, empty if it is not.
func contentEncoding(h http.Header) string {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ",")))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

// onlyReadable drops from what a caller accepts the encodings that a tap cannot
// read. Where there are none, nothing changes.
func onlyReadable(h http.Header) {
	const name = "Accept-Encoding"
	var kept []string
	dropped := false
	for _, value := range h[name] {
		for coding := range strings.SplitSeq(value, ",") {
			word, _, _ := strings.Cut(coding, ";")
			word = strings.ToLower(strings.TrimSpace(word))
			if _, ok := unpackers[word]; !ok && word != "identity" && word != "" {
				dropped = true
				continue
			}
			kept = append(kept, strings.TrimSpace(coding))
		}
	}
	switch {
	case !dropped:
	case len(kept) == 0:
		h.Del(name)
	default:
		h.Set(name, strings.Join(kept, ", "))
	}
}

// wantPlain asks for an answer that is not packed at all, since it is to be
// edited.
func wantPlain(h http.Header) {
	h.Del("Accept-Encoding")
	h.Del("Grpc-Accept-Encoding")
}

// unpacker unpacks bytes that are written to it, piece by piece: whatever can be
// known of the contents after a piece is passed on before write returns. The
// unpacking runs as a coroutine that is resumed by each piece.
type unpacker struct {
	piece  []byte
	last   bool // no piece will follow
	resume func() (struct{}, bool)
	stop   func()
	err    error // what ended the unpacking; nil: the end of the contents
	over   bool
}

var errNoMore = errors.New("no more to unpack")

func newUnpacker(open func(io.Reader) (io.Reader, error), into func([]byte)) *unpacker {
	u := &unpacker{}
	u.resume, u.stop = iter.Pull(func(yield func(struct{}) bool) {
		u.err = u.run(open, into, yield)
		u.over = true
	})
	return u
}

// run unpacks to the end of the contents.
func (u *unpacker) run(open func(io.Reader) (io.Reader, error), into func([]byte), yield func(struct{}) bool) error {
	r, err := open(source(func(p []byte) (int, error) {
		for len(u.piece) == 0 {
			if u.last {
				return 0, io.EOF
			}
			if !yield(struct{}{}) {
				return 0, errNoMore
			}
		}
		n := copy(p, u.piece)
		u.piece = u.piece[n:]
		return n, nil
	}))
	if err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			into(buf[:n])
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type source func([]byte) (int, error)

func (s source) Read(p []byte) (int, error) { return s(p) }

// write unpacks the next piece. It does not keep it.
func (u *unpacker) write(piece []byte) {
	if u.over {
		return
	}
	u.piece = piece
	u.resume()
	u.piece = nil
}

// close ends the unpacking. It reports whether the contents were broken: cut or
// in no such format. With enough, the rest of them is of no interest.
func (u *unpacker) close(enough bool) (broken bool) {
	if !u.over && !enough {
		u.last = true
		u.resume()
	}
	u.stop()
	return u.err != nil && !enough
}
