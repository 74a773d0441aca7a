package proxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pack packs chunks, each of which is flushed, so that it can be read at once.
func pack(t *testing.T, encoding string, chunks ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		io.WriteCloser
		Flush() error
	} = gzip.NewWriter(&out)
	if encoding == "deflate" {
		w = zlib.NewWriter(&out)
	}
	for _, c := range chunks {
		if _, err := io.WriteString(w, c); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestUnpackerTellsAtOnce: what a server flushes is known when its bytes are in.
func TestUnpackerTellsAtOnce(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "deflate"} {
		var got strings.Builder
		u := newUnpacker(unpackers[encoding], func(p []byte) { got.Write(p) })
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
		if broken := u.close(false); broken || got.String() != "one two three" {
			t.Errorf("%s: got %q, broken %v, want all of it", encoding, got.String(), broken)
		}
	}
}

// flushed is what a packer has written after the flush of the last chunk.
func flushed(t *testing.T, encoding string, chunks ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		io.Writer
		Flush() error
	} = gzip.NewWriter(&out)
	if encoding == "deflate" {
		w = zlib.NewWriter(&out)
	}
	for _, c := range chunks {
		if _, err := io.WriteString(w, c); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestUnpackerInAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.StringN(0, 5000, 20000).Draw(rt, "contents")
		packed := pack(t, "gzip", want)
		cut := rapid.Bool().Draw(rt, "cut")
		if cut {
			packed = packed[:rapid.IntRange(0, len(packed)-1).Draw(rt, "at")]
		}
		var got bytes.Buffer
		u := newUnpacker(unpackers["gzip"], func(p []byte) { got.Write(p) })
		for rest := packed; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "piece")
			u.write(bytes.Clone(rest[:n]))
			rest = rest[n:]
		}
		broken := u.close(false)
		if broken != cut {
			rt.Errorf("close = %v, want %v", broken, cut)
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
	if !u.close(false) {
		t.Error("close(false) = false for what is no gzip, want true")
	}
	early := newUnpacker(unpackers["gzip"], func([]byte) {})
	early.write(pack(t, "gzip", strings.Repeat("x", 100))[:12])
	if early.close(true) {
		t.Error("close(true) = true, want false: the rest is of no interest")
	}
	unused := newUnpacker(unpackers["gzip"], func([]byte) {})
	unused.close(true)
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
