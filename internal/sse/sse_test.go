package sse_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
)

// event is an sse.Event that outlives its callback.
type event struct{ ID, Type, Data string }

// result is all that a scanner says of a stream.
type result struct {
	Events    []event
	Oversized int
	Truncated bool
}

// scan writes the chunks to a new scanner. Each chunk is overwritten after its
// Write, as a reader's buffer would be.
func scan(maxEvent int, chunks ...string) result {
	var r result
	s := sse.NewScanner(maxEvent, func(e sse.Event) {
		r.Events = append(r.Events, event{e.ID, e.Type, string(e.Data)})
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

func TestScanner(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     result
	}{
		{"empty", "", result{}},
		{"one event", "data: a\n\n", result{Events: []event{{Data: "a"}}}},
		{"no space", "data:a\n\n", result{Events: []event{{Data: "a"}}}},
		{"only one space goes", "data:  a\n\n", result{Events: []event{{Data: " a"}}}},
		{"crlf", "id: 1\r\ndata: a\r\n\r\n", result{Events: []event{{ID: "1", Data: "a"}}}},
		{"cr", "id: 1\rdata: a\r\r", result{Events: []event{{ID: "1", Data: "a"}}}},
		{"mixed ends", "event: x\rdata: a\r\ndata: b\n\r", result{Events: []event{{Type: "x", Data: "a\nb"}}}},
		{"bom", "\xEF\xBB\xBFdata: a\n\n", result{Events: []event{{Data: "a"}}}},
		{"bom later is no bom", "data: a\n\n\xEF\xBB\xBFdata: b\n\n", result{Events: []event{{Data: "a"}}}},
		{"comment", ": ping\n\ndata: a\n: ping\ndata: b\n\n", result{Events: []event{{Data: "a\nb"}}}},
		{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", result{Events: []event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}, {Data: "c"}}}},
		{"id with NUL is ignored", "id: 1\x00\ndata: a\n\n", result{Events: []event{{Data: "a"}}}},
		{"type goes", "event: x\ndata: a\n\ndata: b\n\n", result{Events: []event{{Type: "x", Data: "a"}, {Data: "b"}}}},
		{"last type wins", "event: x\nevent: y\ndata: a\n\n", result{Events: []event{{Type: "y", Data: "a"}}}},
		{"no data is no event", "event: x\nid: 1\n\ndata: a\n\n", result{Events: []event{{ID: "1", Data: "a"}}}},
		{"retry and unknown", "retry: 5\nfoo: bar\ndata: a\n\n", result{Events: []event{{Data: "a"}}}},
		{"names match exactly", "Data: a\n data: b\ndata : c\n\n", result{}},
		{"colon in data", "data: {\"a\":1}\n\n", result{Events: []event{{Data: `{"a":1}`}}}},
		// The examples of the standard.
		{"two empty events", "data\n\ndata\ndata\n\ndata:", result{Events: []event{{}, {Data: "\n"}}, Truncated: true}},
		{"stocks", "data: YHOO\ndata: +2\ndata: 10\n\n", result{Events: []event{{Data: "YHOO\n+2\n10"}}}},
		{"open at the end", "data: a\n\ndata: b\n", result{Events: []event{{Data: "a"}}, Truncated: true}},
		{"half a line at the end", "data: a\n\nda", result{Events: []event{{Data: "a"}}, Truncated: true}},
		{"comment at the end", "data: a\n\n: pi", result{Events: []event{{Data: "a"}}}},
		{"as long as it may be", "data: 1234567890123456\n\n", result{Events: []event{{Data: "1234567890123456"}}}},
		{"too long", "data: 12345678901234567\n\ndata: a\n\n", result{Events: []event{{Data: "a"}}, Oversized: 1}},
		{"too long in all", "data: 12345678\ndata: 12345678\ndata: x\n\ndata: a\n\n", result{Events: []event{{Data: "a"}}, Oversized: 1}},
		{"far too long", "data: " + strings.Repeat("x", 99) + "\n\ndata: a\n\n", result{Events: []event{{Data: "a"}}, Oversized: 1}},
		{"long comment", ":" + strings.Repeat("x", 99) + "\ndata: a\n\n", result{Events: []event{{Data: "a"}}}},
		{"long type", "\xEF\xBB\xBFevent: " + strings.Repeat("x", 17) + "\ndata: a\n\n", result{Events: []event{{Data: "a"}}}},
		{"longest type", "\xEF\xBB\xBFevent: " + strings.Repeat("x", 16) + "\ndata: a\n\n", result{Events: []event{{Type: strings.Repeat("x", 16), Data: "a"}}}},
		{"long id", "id: 1\ndata: a\n\nid: " + strings.Repeat("x", 99) + "\ndata: b\n\n", result{Events: []event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, scan(16, tt.in)); diff != "" {
				t.Errorf("scan(%q) in one chunk (-want +got):\n%s", tt.in, diff)
			}
			if diff := cmp.Diff(tt.want, scan(16, strings.Split(tt.in, "")...)); diff != "" {
				t.Errorf("scan(%q) byte by byte (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

// The streams are as real agents framed them: data only, id with data, event
// with data and several events in one chunk.
func TestScannerTranscripts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		events  int
		id, typ string // of the last event
	}{
		"a2a-go-1.0.sse":        {3, "24a8222c-eec8-43bc-bd45-2acb54610d11", ""},
		"a2a-go-0.3.sse":        {3, "bcbe5408-8c26-4202-b03e-9e21a82f28a2", ""},
		"a2a-js-0.3.sse":        {6, "", ""},
		"trpc-a2a-go-0.2.5.sse": {7, "", "task_status_update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			r := scan(1<<20, string(raw))
			if len(r.Events) != want.events || r.Truncated || r.Oversized != 0 {
				t.Fatalf("scan(%s) = %d events, truncated %v, oversized %d, want %d, false, 0", name, len(r.Events), r.Truncated, r.Oversized, want.events)
			}
			last := r.Events[len(r.Events)-1]
			if last.ID != want.id || last.Type != want.typ || !strings.HasPrefix(last.Data, `{"jsonrpc":"2.0",`) {
				t.Errorf("scan(%s) ends in %+v, want id %q and type %q", name, last, want.id, want.typ)
			}
		})
	}
}

func TestAppendEvent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		in   sse.Event
		want string
	}{
		{"data only", sse.Event{Data: []byte("a")}, "data: a\n\n"},
		{"all fields", sse.Event{ID: "1", Type: "x", Data: []byte("a")}, "id: 1\nevent: x\ndata: a\n\n"},
		{"no data", sse.Event{}, "data: \n\n"},
		{"every line break", sse.Event{Data: []byte("a\nb\r\nc\rd\n")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"no injection", sse.Event{ID: "1\ndata: evil", Type: "x\rid: 2", Data: []byte("a")}, "data: a\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(sse.AppendEvent(nil, tt.in)); got != tt.want {
				t.Errorf("AppendEvent(%+v) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestAppendEventKeepsPrefix(t *testing.T) {
	t.Parallel()
	if got, want := string(sse.AppendEvent([]byte("before"), sse.Event{Data: []byte("a")})), "beforedata: a\n\n"; got != want {
		t.Errorf("AppendEvent(before) = %q, want %q", got, want)
	}
}

func TestScannerAnyChunking(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{
			"", "data: abc", "data:", "data", "data: " + strings.Repeat("y", 30), "id: 7", "id", "event: e", ": comment",
			"retry: 1", "junk", "\xEF\xBB\xBFdata: b", strings.Repeat("z", 40),
		})).Draw(t, "lines")
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(l + rapid.SampledFrom([]string{"\n", "\r", "\r\n"}).Draw(t, "end"))
		}
		in := b.String()
		cuts := rapid.SliceOf(rapid.IntRange(0, len(in))).Draw(t, "cuts")
		if diff := cmp.Diff(scan(24, in), scan(24, cutAt(in, cuts)...)); diff != "" {
			t.Fatalf("scan(%q) cut at %v (-whole +cut):\n%s", in, cuts, diff)
		}
	})
}

// cutAt cuts s at the offsets, in whatever order they come.
func cutAt(s string, cuts []int) []string {
	at := make([]bool, len(s)+1)
	for _, c := range cuts {
		at[c] = true
	}
	var chunks []string
	from := 0
	for i := range at {
		if at[i] {
			chunks = append(chunks, s[from:i])
			from = i
		}
	}
	return append(chunks, s[from:])
}

func TestScannerDoesNotCopyWholeEvents(t *testing.T) {
	stream := []byte("event: x\ndata: " + strings.Repeat("d", 1000) + "\n\n")
	s := sse.NewScanner(1<<20, func(sse.Event) {})
	_, _ = s.Write(stream)
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Write(stream) }); n != 0 {
		t.Errorf("Write(whole event) makes %v allocations, want 0", n)
	}
}

func FuzzScanner(f *testing.F) {
	addStreams(f, func(b []byte) { f.Add(b, uint8(7), uint8(200)) })
	f.Fuzz(func(t *testing.T, in []byte, step, maxEvent uint8) {
		var chunks []string
		for rest, n := string(in), int(step)%16+1; rest != ""; n = (n*7+int(step))%16 + 1 {
			n = min(n, len(rest))
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		whole := scan(int(maxEvent), string(in))
		if diff := cmp.Diff(whole, scan(int(maxEvent), chunks...)); diff != "" {
			t.Errorf("scan(%q) cut into %q (-whole +cut):\n%s", in, chunks, diff)
		}
		for _, e := range whole.Events {
			if len(e.Data) > int(maxEvent) {
				t.Errorf("scan(%q) emits %d bytes, want at most %d", in, len(e.Data), maxEvent)
			}
		}
	})
}

func FuzzAppendEvent(f *testing.F) {
	f.Add("1", "x", []byte("a"))
	f.Add("", "", []byte("a\r\nb\n"))
	f.Fuzz(func(t *testing.T, id, typ string, data []byte) {
		want := event{id, typ, string(data)}
		if strings.ContainsAny(id, "\r\n\x00") {
			want.ID = ""
		}
		if strings.ContainsAny(typ, "\r\n") {
			want.Type = ""
		}
		want.Data = strings.ReplaceAll(want.Data, "\r\n", "\n")
		want.Data = strings.ReplaceAll(want.Data, "\r", "\n")
		written := sse.AppendEvent(nil, sse.Event{ID: id, Type: typ, Data: data})
		if diff := cmp.Diff(result{Events: []event{want}}, scan(1<<20, string(written))); diff != "" {
			t.Errorf("scan(%q) (-want +got):\n%s", written, diff)
		}
	})
}

// addStreams seeds a fuzz target with the transcripts.
func addStreams(f *testing.F, add func([]byte)) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatalf("Glob(testdata/*.sse) = %v, %v, want files", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
}

func BenchmarkScanner(b *testing.B) {
	event := []byte("id: 24a8222c-eec8-43bc-bd45-2acb54610d11\ndata: " + strings.Repeat("d", 1000) + "\n\n")
	for _, bb := range []struct {
		name  string
		chunk int
	}{{"whole", len(event)}, {"quarters", len(event) / 4}, {"eight in one", 8 * len(event)}} {
		b.Run(bb.name, func(b *testing.B) {
			stream := bytes.Repeat(event, 64)
			s := sse.NewScanner(1<<20, func(sse.Event) {})
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := stream; len(rest) > 0; {
					n := min(bb.chunk, len(rest))
					_, _ = s.Write(rest[:n])
					rest = rest[n:]
				}
			}
		})
	}
}
