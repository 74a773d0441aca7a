package grpcframe_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
)

// message is an emitted message that outlives its callback.
type message struct {
	Compressed bool
	Data       string
}

// result is all that a scanner says of a body.
type result struct {
	Messages  []message
	Oversized int
	Truncated bool
}

// scan writes the chunks to a new scanner. Each chunk is overwritten after its
// Write, as a reader's buffer would be.
func scan(maxMessage int, chunks ...string) result {
	var r result
	s := grpcframe.NewScanner(maxMessage, func(compressed bool, msg []byte) {
		r.Messages = append(r.Messages, message{compressed, string(msg)})
	})
	for _, c := range chunks {
		b := []byte(c)
		if n, err := s.Write(b); n != len(b) || err != nil {
			panic("Write failed")
		}
		for i := range b {
			b[i] = '#'
		}
	}
	r.Truncated = s.Close()
	r.Oversized = s.Oversized()
	return r
}

// frame is a message in its frame.
func frame(data string) string { return string(grpcframe.Append(nil, []byte(data))) }

// packed is the same, said to be compressed.
func packed(data string) string { return "\x01" + frame(data)[1:] }

func TestScanner(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     result
	}{
		{"empty", "", result{}},
		{"one message", frame("a"), result{Messages: []message{{Data: "a"}}}},
		{"empty message", frame(""), result{Messages: []message{{}}}},
		{"several", frame("a") + frame("") + frame("bc"), result{Messages: []message{{Data: "a"}, {}, {Data: "bc"}}}},
		{"compressed", packed("a") + frame("b"), result{Messages: []message{{Compressed: true, Data: "a"}, {Data: "b"}}}},
		{"as long as it may be", frame("1234567890123456"), result{Messages: []message{{Data: "1234567890123456"}}}},
		{"too long", frame("12345678901234567") + frame("a"), result{Messages: []message{{Data: "a"}}, Oversized: 1}},
		{"too long, cut", frame("a") + frame("12345678901234567")[:8], result{Messages: []message{{Data: "a"}}, Oversized: 1, Truncated: true}},
		{"far too long", "\x00\xff\xff\xff\xffab", result{Oversized: 1, Truncated: true}},
		{"cut in the header", frame("a") + "\x00\x00", result{Messages: []message{{Data: "a"}}, Truncated: true}},
		{"cut after the header", "\x00\x00\x00\x00\x02", result{Truncated: true}},
		{"cut in the message", frame("a") + frame("abc")[:7], result{Messages: []message{{Data: "a"}}, Truncated: true}},
		{"not gRPC", frame("a") + "{\"error\":1}" + frame("b"), result{Messages: []message{{Data: "a"}}, Truncated: true}},
		{"trailers of gRPC-Web", frame("a") + "\x80" + frame("x")[1:], result{Messages: []message{{Data: "a"}}, Truncated: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, scan(16, tt.in)); diff != "" {
				t.Errorf("scan(%q) in one chunk (-want +got):\n%s", tt.in, diff)
			}
			if diff := cmp.Diff(tt.want, scan(16, strings.Split(tt.in, "")...)); diff != "" {
				t.Errorf("scan(%q) in small chunks (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestScannerNegativeMax(t *testing.T) {
	t.Parallel()
	want := result{Messages: []message{{}}, Oversized: 1}
	if diff := cmp.Diff(want, scan(-1, frame("a")+frame(""))); diff != "" {
		t.Errorf("scan(-1) (-want +got):\n%s", diff)
	}
}

// A message that is whole in its chunk is that part of it, and no more.
func TestScannerDoesNotCopy(t *testing.T) {
	t.Parallel()
	chunk := []byte(frame("ab") + frame("cd"))
	at := 0
	s := grpcframe.NewScanner(16, func(_ bool, msg []byte) {
		at += 5
		if &msg[0] != &chunk[at] || cap(msg) != len(msg) {
			t.Errorf("message %q is a copy, or can grow to %d bytes", msg, cap(msg))
		}
		at += len(msg)
	})
	if _, err := s.Write(chunk); err != nil {
		t.Fatal(err)
	}
}

// What a frame claims to hold takes no memory before it comes. The test is not
// parallel, so that nothing else allocates.
func TestScannerBelievesNoLength(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := grpcframe.NewScanner(1<<30, func(bool, []byte) {})
	if _, err := s.Write([]byte("\x00\x3f\xff\xff\xffx")); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
		t.Errorf("a frame of 1 GB, of which one byte has come, takes %d bytes, want a few", got)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want message
		err  error
	}{
		{in: frame("abc"), want: message{Data: "abc"}},
		{in: frame("")},
		{in: packed("abc"), want: message{Compressed: true, Data: "abc"}},
		{in: "", err: grpcframe.ErrTruncated},
		{in: "\x00\x00\x00\x00", err: grpcframe.ErrTruncated},
		{in: frame("abc")[:7], err: grpcframe.ErrTruncated},
		{in: "\x00\xff\xff\xff\xff", err: grpcframe.ErrTruncated},
		{in: frame("abc") + "x", err: grpcframe.ErrMore},
		{in: frame("") + frame(""), err: grpcframe.ErrMore},
		{in: "\x02\x00\x00\x00\x00", err: grpcframe.ErrFlag},
		{in: "hello", err: grpcframe.ErrFlag},
	} {
		compressed, msg, err := grpcframe.Split([]byte(tt.in))
		if got := (message{compressed, string(msg)}); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("Split(%q) = %+v, %v, want %+v, %v", tt.in, got, err, tt.want, tt.err)
		}
		if cap(msg) != len(msg) {
			t.Errorf("Split(%q) can grow to %d bytes", tt.in, cap(msg))
		}
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dst, msg, want string }{
		{"", "", "\x00\x00\x00\x00\x00"},
		{"", "abc", "\x00\x00\x00\x00\x03abc"},
		{"x", strings.Repeat("a", 300), "x\x00\x00\x00\x01\x2c" + strings.Repeat("a", 300)},
	} {
		if got := string(grpcframe.Append([]byte(tt.dst), []byte(tt.msg))); got != tt.want {
			t.Errorf("Append(%q, %q) = %q, want %q", tt.dst, tt.msg, got, tt.want)
		}
	}
}

// cut splits a body in chunks of the sizes given, over and over.
func cut(body string, sizes []byte) []string {
	var chunks []string
	for i := 0; len(body) > 0; i++ {
		n := len(body)
		if len(sizes) > 0 {
			n = min(int(sizes[i%len(sizes)]), n)
		}
		if n == 0 && i >= len(sizes) {
			n = 1
		}
		chunks = append(chunks, body[:n])
		body = body[n:]
	}
	return chunks
}

// However the messages travel, they are those that were sent.
func TestScannerProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want result
		var body strings.Builder
		for _, data := range rapid.SliceOf(rapid.StringN(0, 40, 40)).Draw(t, "messages") {
			compressed := rapid.Bool().Draw(t, "compressed")
			if compressed {
				body.WriteString(packed(data))
			} else {
				body.WriteString(frame(data))
			}
			if len(data) > 30 {
				want.Oversized++
			} else {
				want.Messages = append(want.Messages, message{compressed, data})
			}
		}
		chunks := cut(body.String(), rapid.SliceOf(rapid.ByteRange(0, 60)).Draw(t, "sizes"))
		if diff := cmp.Diff(want, scan(30, chunks...)); diff != "" {
			t.Errorf("scan(%q) (-want +got):\n%s", chunks, diff)
		}
	})
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte(frame("a")+packed("bc")+frame("")), []byte{1, 7, 0})
	f.Add([]byte(frame(strings.Repeat("x", 99))+frame("a")), []byte{200})
	f.Add([]byte(frame("abc")[:6]), []byte{5})
	f.Add([]byte("HTTP/1.1 200 OK\r\n"), []byte{})
	f.Fuzz(func(t *testing.T, body, sizes []byte) {
		whole := scan(64, string(body))
		if diff := cmp.Diff(whole, scan(64, cut(string(body), sizes)...)); diff != "" {
			t.Errorf("scan(%q) in chunks of %v (-whole +chunks):\n%s", body, sizes, diff)
		}
		if compressed, msg, err := grpcframe.Split(body); err == nil && len(msg) <= 64 {
			want := result{Messages: []message{{compressed, string(msg)}}}
			if diff := cmp.Diff(want, whole); diff != "" {
				t.Errorf("scan(%q) (-Split +scan):\n%s", body, diff)
			}
			if again := grpcframe.Append(nil, msg); !compressed && !bytes.Equal(again, body) {
				t.Errorf("Append(%q) = %q, want %q", msg, again, body)
			}
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	for _, bb := range []struct{ message, chunk int }{{200, 32 << 10}, {200, 100}, {1 << 20, 32 << 10}, {10 << 20, 32 << 10}} {
		b.Run(fmt.Sprintf("message=%d/chunk=%d", bb.message, bb.chunk), func(b *testing.B) {
			body := strings.Repeat(frame(strings.Repeat("x", bb.message)), 1+(1<<20)/bb.message)
			chunks := slices.Collect(slices.Chunk([]byte(body), bb.chunk))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				s := grpcframe.NewScanner(16<<20, func(bool, []byte) {})
				for _, c := range chunks {
					if _, err := s.Write(c); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
