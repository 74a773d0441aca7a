package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// nobody is told what a tap reads.
type nobody struct{ saw int }

func (n *nobody) Saw(wire.Update)      { n.saw++ }
func (n *nobody) Flush()               {}
func (n *nobody) End(sessions.Outcome) {}

// BenchmarkTap is what reading along costs a stream: framing and events both.
func BenchmarkTap(b *testing.B) {
	for _, size := range []int{200, 1 << 10, 64 << 10} {
		event := `data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a1","parts":[{"text":"` +
			strings.Repeat("What do they want? ", size/19+1)[:size] + `"}]},"append":true}}}` + "\n\n"
		stream := bytes.Repeat([]byte(event), max(1, (1<<20)/len(event)))
		b.Run(fmt.Sprintf("event=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			buf := make([]byte, streamBufferSize)
			for b.Loop() {
				resp := &http.Response{
					StatusCode: http.StatusOK, ContentLength: -1, Header: http.Header{"Content-Type": {typeStream}},
					Body: io.NopCloser(bytes.NewReader(stream)),
				}
				n := &nobody{}
				t := newTap(b.Context(), resp, newJSONReading(resp, wire.ReadResponse), n)
				for {
					if _, err := t.Read(buf); err != nil {
						break
					}
				}
				if n.saw != len(stream)/len(event) {
					b.Fatalf("the tap saw %d events, want %d", n.saw, len(stream)/len(event))
				}
			}
		})
	}
}
