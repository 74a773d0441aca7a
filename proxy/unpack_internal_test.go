package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// encodings are all that can be unpacked, and how; "raw" is deflate without the
// frame that is called zlib.
var encodings = map[string]func(io.Reader) (io.Reader, error){
	"gzip": unpackers["gzip"], "deflate": unpackers["deflate"], "raw": unpackers["deflate"],
}

// pack packs chunks, each of which is flushed, so that it can be read at once.
func pack(t *testing.T, encoding string, chunks ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := packTo(t, &out, encoding, chunks...).Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// flushed is what a packer has written after the flush of the last chunk.
func flushed(t *testing.T, encoding string, chunks ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	packTo(t, &out, encoding, chunks...)
	return out.Bytes()
}

func packTo(t *testing.T, out *bytes.Buffer, encoding string, chunks ...string) io.Closer {
	t.Helper()
	var w interface {
		io.WriteCloser
		Flush() error
	}
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(out)
	case "deflate":
		w = zlib.NewWriter(out)
	case "raw":
		raw, err := flate.NewWriter(out, flate.DefaultCompression)
		if err != nil {
			t.Fatal(err)
		}
		w = raw
	}
	for _, c := range chunks {
		if _, err := io.WriteString(w, c); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestUnpackerTellsAtOnce: what a server flushes is known when its bytes are in.
func TestUnpackerTellsAtOnce(t *testing.T) {
	t.Parallel()
	for encoding, open := range encodings {
		var got strings.Builder
		u := newUnpacker(open, func(p []byte) { got.Write(p) })
		sizes := map[int]string{ // of what was packed up to a flush, its contents
			len(flushed(t, encoding, "one ")):         "one ",
			len(flushed(t, encoding, "one ", "two ")): "one two ",
		}
		for i, c := range pack(t, encoding, "one ", "two ", "three") {
			if want, ok := sizes[i]; ok && got.String() != want {
				t.Errorf("%s: after %d bytes got %q, want %q", encoding, i, got.String(), want)
			}
			u.write([]byte{c})
		}
		if err := u.close(false); err != nil || got.String() != "one two three" {
			t.Errorf("%s: got %q, %v, want all of it", encoding, got.String(), err)
		}
	}
}

func TestUnpackerInAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.StringN(0, 5000, 20000).Draw(rt, "contents")
		encoding := rapid.SampledFrom([]string{"gzip", "deflate", "raw"}).Draw(rt, "encoding")
		packed := pack(t, encoding, want)
		cut := rapid.Bool().Draw(rt, "cut")
		if cut {
			packed = packed[:rapid.IntRange(0, len(packed)-1).Draw(rt, "at")]
		}
		var got bytes.Buffer
		u := newUnpacker(encodings[encoding], func(p []byte) { got.Write(p) })
		for rest := packed; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "piece")
			u.write(bytes.Clone(rest[:n]))
			rest = rest[n:]
		}
		if err := u.close(false); (err != nil) != cut || errors.Is(err, errUnreadable) {
			rt.Errorf("close = %v, want an error: %v, of what could be read", err, cut)
		}
		if !cut && got.String() != want || !strings.HasPrefix(want, got.String()) {
			rt.Errorf("unpacked %q, want %q", got.String(), want)
		}
	})
}

// TestUnpackerGivenUp: one that is closed early, or is written what is no such
// format, ends (goleak watches).
func TestUnpackerGivenUp(t *testing.T) {
	t.Parallel()
	u := newUnpacker(unpackers["gzip"], func([]byte) { t.Error("contents of nothing") })
	u.write([]byte("HTTP/1.1"))
	u.write([]byte("more of it"))
	if err := u.close(false); !errors.Is(err, errUnreadable) {
		t.Errorf("close(false) = %v for what is no gzip, want %v", err, errUnreadable)
	}
	early := newUnpacker(unpackers["gzip"], func([]byte) {})
	early.write(pack(t, "gzip", strings.Repeat("x", 100))[:12])
	if err := early.close(true); err != nil {
		t.Errorf("close(true) = %v, want nil: the rest is of no interest", err)
	}
	unused := newUnpacker(unpackers["gzip"], func([]byte) {})
	if err := unused.close(true); err != nil {
		t.Errorf("close(true) = %v of nothing, want nil", err)
	}
}

func TestUnpackAll(t *testing.T) {
	t.Parallel()
	const limit = 1000
	text, long := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	good := pack(t, "gzip", text)
	corrupt := bytes.Clone(good)
	corrupt[len(corrupt)-5] ^= 0xff // in its checksum
	for _, tt := range []struct {
		name, encoding string
		packed         []byte
		want           string
		is             error
	}{
		{"gzip", "gzip", good, text, nil},
		{"zlib", "deflate", pack(t, "deflate", text), text, nil},
		{"raw deflate", "deflate", pack(t, "raw", text), text, nil},
		{"raw deflate of nothing", "deflate", pack(t, "raw"), "", nil},
		{"a byte too long", "gzip", pack(t, "gzip", long), "", errTooLarge},
		{"raw and a byte too long", "deflate", pack(t, "raw", long), "", errTooLarge},
		{"nothing", "gzip", nil, "", io.ErrUnexpectedEOF},
		{"nothing deflated", "deflate", nil, "", io.ErrUnexpectedEOF},
		{"cut in its header", "gzip", good[:5], "", io.ErrUnexpectedEOF},
		{"cut", "gzip", good[:len(good)-1], "", io.ErrUnexpectedEOF},
		{"raw and cut", "deflate", pack(t, "raw", text)[:5], "", io.ErrUnexpectedEOF},
		{"corrupt", "gzip", corrupt, "", gzip.ErrChecksum},
		{"no gzip", "gzip", []byte("{\"jsonrpc\":\"2.0\"}"), "", errUnreadable},
		{"no deflate", "deflate", []byte("{\"jsonrpc\":\"2.0\"}"), "", errUnreadable},
		{"an encoding that is not known", "br", good, "", errUnreadable},
		{"no encoding", "", good, "", errUnreadable},
	} {
		got, err := unpackAll(tt.encoding, tt.packed, limit)
		if string(got) != tt.want || !errors.Is(err, tt.is) || !errors.Is(tt.is, errUnreadable) && errors.Is(err, errUnreadable) {
			t.Errorf("%s: unpackAll(%s, %x) = %q, %v, want %q, %v", tt.name, tt.encoding, tt.packed, got, err, tt.want, tt.is)
		}
	}
}

// ended is a watcher that wants to know how it ends.
type ended struct {
	saw     []wire.Update
	outcome sessions.Outcome
}

func (w *ended) Saw(u wire.Update)      { w.saw = append(w.saw, u) }
func (w *ended) Flush()                 {}
func (w *ended) End(o sessions.Outcome) { w.outcome = o }

// What nobody can read is not the same as what is broken.
func TestReadingOfPackedAnswers(t *testing.T) {
	t.Parallel()
	const task = `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}}}`
	whole := pack(t, "gzip", task)
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		want           sessions.Outcome
		seen           int
	}{
		{"gzip", "gzip", whole, sessions.Answered, 1},
		{"zlib", "deflate", pack(t, "deflate", task), sessions.Answered, 1},
		{"raw deflate", "deflate", pack(t, "raw", task), sessions.Answered, 1},
		{"not packed", "gzip", []byte(task), sessions.Unread, 0},
		{"not deflated", "deflate", []byte(task), sessions.Unread, 0},
		{"unknown", "br", []byte("x"), sessions.Unread, 0},
		{"cut", "gzip", whole[:len(whole)-20], sessions.Malformed, 0},
		{"cut raw deflate", "deflate", pack(t, "raw", task)[:20], sessions.Malformed, 0},
		{"packed nonsense", "gzip", pack(t, "gzip", "x"), sessions.Malformed, 0},
	} {
		resp := &http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(tt.body)),
			Header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {tt.encoding}},
		}
		var w ended
		tap := newTap(t.Context(), resp, newJSONReading(resp, wire.ReadResponse), &w)
		got, err := io.ReadAll(tap)
		if err != nil || !bytes.Equal(got, tt.body) {
			t.Errorf("%s: read %x, %v, want the bytes as they are", tt.name, got, err)
		}
		if w.outcome != tt.want || len(w.saw) != tt.seen {
			t.Errorf("%s: %d updates and %v, want %d and %v", tt.name, len(w.saw), w.outcome, tt.seen, tt.want)
		}
	}
}

func TestOnlyReadable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want []string }{
		{nil, nil},
		{[]string{"gzip"}, []string{"gzip"}},
		{[]string{"gzip,deflate"}, []string{"gzip,deflate"}},
		{[]string{"GZIP;q=1.0, identity; q=0.5"}, []string{"GZIP;q=1.0, identity; q=0.5"}},
		{[]string{"br, gzip, deflate"}, []string{"gzip, deflate"}},
		{[]string{"br", "gzip;q=0.1"}, []string{"gzip;q=0.1"}},
		{[]string{"zstd, br"}, nil},
		{[]string{"*"}, nil},
		{[]string{""}, []string{""}},
	} {
		h := http.Header{}
		if tt.in != nil {
			h["Accept-Encoding"] = tt.in
		}
		onlyReadable(h)
		if diff := cmp.Diff(tt.want, h["Accept-Encoding"]); diff != "" {
			t.Errorf("onlyReadable(%q) (-want +got):\n%s", tt.in, diff)
		}
	}
}

// A notification that is too long when it is unpacked is not read in part.
func TestUnpackedNotifications(t *testing.T) {
	t.Parallel()
	const said = `{"task":{"id":"t1"}}`
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		want           string
		is             error
	}{
		{"plain", "", []byte(said), said, nil},
		{"identity", "identity", []byte(said), said, nil},
		{"packed", "GZIP", pack(t, "gzip", said), said, nil},
		{"too long", "gzip", pack(t, "gzip", said, strings.Repeat(" ", maxSeen)), "", errTooLarge},
		{"unknown", "br", []byte(said), "", errUnreadable},
	} {
		got, err := unpacked(http.Header{"Content-Encoding": {tt.encoding}}, tt.body)
		if string(got) != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("%s: unpacked() = %q, %v, want %q, %v", tt.name, got, err, tt.want, tt.is)
		}
	}
}
