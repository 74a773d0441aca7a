package proxy

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strings"
)

// unpackers are the encodings that a tap can read, by their names in HTTP and in
// gRPC. An error in opening one is for [unreadable].
var unpackers = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": inflate,
}

// inflate reads what is encoded as deflate: in zlib's format, as HTTP and gRPC
// mean it, or without its frame, as many servers of HTTP have it.
func inflate(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(2)
	if err != nil {
		return nil, err
	}
	// RFC 1950 §2.2. No encoder begins a bare stream like that.
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(in)
	}
	return bareDeflate{flate.NewReader(in)}, nil
}

// bareDeflate is deflate without a frame. Since nothing else tells it apart from
// what is no deflate at all, a fault in it may well mean that.
type bareDeflate struct{ io.Reader }

func (b bareDeflate) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if _, corrupt := errors.AsType[flate.CorruptInputError](err); corrupt {
		err = unreadable(err)
	}
	return n, err
}

// errUnreadable: nothing can be known of what is packed, be its encoding unknown
// or another than its name says.
var errUnreadable = errors.New("encoding cannot be read")

// unreadable makes errUnreadable of a fault at the start of what is packed, unless
// it is that this was cut.
func unreadable(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errNoMore) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreadable, err)
}

// unpackAll returns all that is packed, or errTooLarge if that is more than
// limit bytes. An encoding that is not known is errUnreadable, too.
func unpackAll(encoding string, packed []byte, limit int) ([]byte, error) {
	open, ok := unpackers[encoding]
	if !ok {
		return nil, fmt.Errorf("unpacking: %w: it is not known", errUnreadable)
	}
	r, err := open(bytes.NewReader(packed))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", unreadable(err))
	}
	limit = min(limit, math.MaxInt-1)
	all, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpacking: %w", err)
	case len(all) > limit:
		return nil, fmt.Errorf("unpacking more than %d bytes: %w", limit, errTooLarge)
	}
	return all, nil
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
		return unreadable(err)
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

// close ends the unpacking. It returns an error if the contents were broken: cut,
// corrupt, or errUnreadable. With enough, the rest of them is of no interest.
func (u *unpacker) close(enough bool) error {
	if !u.over && !enough {
		u.last = true
		u.resume()
	}
	u.stop()
	if enough {
		return nil
	}
	return u.err
}
