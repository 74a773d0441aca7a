package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func TestReadParts(t *testing.T) {
	t.Parallel()
	hi := wire.Part{Kind: "file", Bytes: 2, SHA256: sum("hi")}
	described := wire.Part{Kind: "file", Name: "n", MediaType: "text/plain", Bytes: 2, SHA256: sum("hi")}
	link := wire.Part{Kind: "file", Name: "n", MediaType: "text/plain", URI: "http://x/"}
	for _, tt := range []struct {
		name, in string
		want     []wire.Part
	}{
		{"nothing", "", nil},
		{"empty", "[]", nil},
		{"0.3 text", `[{"kind":"text","text":"a\u0062"}]`, []wire.Part{{Kind: "text", Text: "ab"}}},
		{"1.0 text", `[{"text":"","mediaType":"text/plain"}]`, []wire.Part{{Kind: "text", MediaType: "text/plain"}}},
		{"0.3 data", `[{"kind":"data","data":{"n":1e0}}]`, []wire.Part{{Kind: "data", Data: []byte(`{"n":1e0}`)}}},
		{"1.0 data", `[{"data":[1, 2],"filename":"n"}]`, []wire.Part{{Kind: "data", Data: []byte(`[1, 2]`), Name: "n"}}},
		{"1.0 null data", `[{"data":null}]`, []wire.Part{{Kind: "data", Data: []byte(`null`)}}},
		{"nulls for what is absent", `[{"text":"a","data":null,"raw":null,"url":null,"file":null}]`, []wire.Part{{Kind: "text", Text: "a"}}},
		{"0.3 inline", `[{"kind":"file","file":{"bytes":"aGk=","mimeType":"text/plain","name":"n"}}]`, []wire.Part{described}},
		{"0.3 link", `[{"kind":"file","file":{"uri":"http://x/","mimeType":"text/plain","name":"n"}}]`, []wire.Part{link}},
		{"0.3 proto", `[{"file":{"fileWithBytes":"aGk=","mime_type":"text/plain","name":"n"}},{"file":{"file_with_uri":"http://x/","mimeType":"text/plain","name":"n"}}]`, []wire.Part{described, link}},
		{"0.3 proto's data", `[{"data":{"data":{"n":1}}},{"metadata":{},"data": { "data" : {} } }]`, []wire.Part{{Kind: "data", Data: []byte(`{"n":1}`)}, {Kind: "data", Data: []byte(`{}`)}}},
		{"data named data", `[{"data":{"data":{}},"kind":"data"},{"data":{"data":{},"n":1}},{"data":{"n":1,"data":{}}},{"data":{"data":1}},{"data":{}}]`, []wire.Part{
			{Kind: "data", Data: []byte(`{"data":{}}`)},
			{Kind: "data", Data: []byte(`{"data":{},"n":1}`)},
			{Kind: "data", Data: []byte(`{"n":1,"data":{}}`)},
			{Kind: "data", Data: []byte(`{"data":1}`)},
			{Kind: "data", Data: []byte(`{}`)},
		}},
		{"1.0 inline", `[{"raw":"aGk=","mediaType":"text/plain","filename":"n"}]`, []wire.Part{described}},
		{"1.0 link", `[{"url":"http://x/","media_type":"text/plain","filename":"n"}]`, []wire.Part{link}},
		{"unpadded", `[{"raw":"aGk"}]`, []wire.Part{hi}},
		{"line breaks", `[{"raw":"aG\r\nk=\n"}]`, []wire.Part{hi}},
		{"URL alphabet", `[{"raw":"_-8"},{"raw":"\/+8="}]`, []wire.Part{{Kind: "file", Bytes: 2, SHA256: sum("\xff\xef")}, {Kind: "file", Bytes: 2, SHA256: sum("\xff\xef")}}},
		{"empty file", `[{"raw":""}]`, []wire.Part{{Kind: "file", SHA256: sum("")}}},
		{"not base64", `[{"raw":"a b"},{"raw":"a"},{"raw":"aGk=aGk="},{"file":{"bytes":7}}]`, []wire.Part{{Kind: "file"}, {Kind: "file"}, {Kind: "file"}, {Kind: "file"}}},
		{"not understood", `[1,null,{},{"kind":"poem","verse":1},[{"text":"x"}]]`, make([]wire.Part, 5)},
		{"metadata is not a part", `[{"text":"a","metadata":{"url":"http://x/","data":1}}]`, []wire.Part{{Kind: "text", Text: "a"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.ReadParts([]byte(tt.in))
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("ReadParts(%s) (-want +got), error %v:\n%s", tt.in, err, diff)
			}
		})
	}
}

func TestReadPartsRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"text":"a"}`: "parts are not an array",
		`null`:         "parts are not an array",
		` `:            "parts is empty",
		`[{"text":"se`: "parts is not JSON: it ends early at byte 12 in 0.text",
	} {
		if got, err := wire.ReadParts([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("ReadParts(%s) = %v, %v, want %q", in, got, err, want)
		}
	}
}

// Every encoding of every size, around the blocks it is decoded in.
func TestReadPartsFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := bytes.Repeat([]byte{0xfb, 0xef, 'x'}, 4000)[:rapid.IntRange(0, 12000).Draw(t, "size")]
		encoding := rapid.SampledFrom([]*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}).Draw(t, "encoding")
		text := encoding.EncodeToString(content)
		if width := rapid.SampledFrom([]int{0, 76, 77}).Draw(t, "line width"); width > 0 {
			var folded strings.Builder
			for len(text) > width {
				folded.WriteString(text[:width] + `\r\n`)
				text = text[width:]
			}
			text = folded.String() + text
		}
		got, err := wire.ReadParts([]byte(`[{"raw":"` + text + `"}]`))
		want := []wire.Part{{Kind: "file", Bytes: len(content), SHA256: sum(string(content))}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("ReadParts(%d bytes) (-want +got), error %v:\n%s", len(content), err, diff)
		}
	})
}
