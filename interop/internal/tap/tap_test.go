package tap_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

// before puts a tap before a server until the test ends.
func before(t *testing.T, server *httptest.Server) *tap.Tap {
	t.Helper()
	tp, err := tap.Listen(t.Context(), "127.0.0.1:0", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tp.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return tp
}

// client makes a client of one version of HTTP, with connections of its own.
func client(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// serve runs a server for both versions of HTTP in the clear.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = &protocols
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// post sends a request and returns the body of the answer.
func post(t *testing.T, c *http.Client, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Asked", "yes")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("POST = %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return string(got)
}

// What passes is passed as it came, and parsed as it was sent: bodies out of
// chunks and frames, trailers, exchanges in their order.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		proto string
		h2    bool
	}{{"HTTP/1.1", false}, {"HTTP/2.0", true}} {
		t.Run(tt.proto, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Errorf("reading the request: %v", err)
				}
				w.Header().Set("Trailer", "X-Last")
				w.Header().Set("X-Answered", "yes")
				w.WriteHeader(http.StatusAccepted)
				for part := range strings.SplitSeq(string(body), " ") {
					write(t, w, part+"!")
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Errorf("Flush = %v", err)
					}
				}
				w.Header().Set("X-Last", "bye")
			})
			tp := before(t, server)
			c := client(t, tt.h2)
			for _, body := range []string{"one two", "three"} {
				if got, want := post(t, c, "http://"+tp.Addr()+"/a/b?q=1", body), strings.ReplaceAll(body, " ", "!")+"!"; got != want {
					t.Errorf("POST %q = %q, want %q", body, got, want)
				}
			}
			got, err := tap.Parse(tp.Cut())
			if err != nil {
				t.Fatalf("Parse = %v", err)
			}
			want := []tap.Exchange{}
			for _, body := range []string{"one two", "three"} {
				want = append(want, tap.Exchange{
					Proto: tt.proto, Method: "POST", Target: "/a/b?q=1", Authority: tp.Addr(), Status: 202,
					Request:  tap.Half{Body: []byte(body)},
					Response: tap.Half{Body: []byte(strings.ReplaceAll(body, " ", "!") + "!"), Trailer: http.Header{"X-Last": {"bye"}}},
				})
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(tap.Half{}, "Header"), cmpopts.IgnoreFields(tap.Exchange{}, "Seq")); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			for _, e := range got {
				if e.Request.Header.Get("X-Asked") != "yes" || e.Response.Header.Get("X-Answered") != "yes" {
					t.Errorf("headers = %v and %v, want X-Asked and X-Answered", e.Request.Header, e.Response.Header)
				}
			}
			if left := tp.Cut(); len(left) > 0 {
				t.Errorf("Cut after Cut = %d connections, want none", len(left))
			}
		})
	}
}

// An answer that breaks off is told from one that ends.
func TestTruncated(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2 %t", h2), func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				write(t, w, "begin")
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Errorf("Flush = %v", err)
				}
				panic(http.ErrAbortHandler)
			})
			tp := before(t, server)
			resp, err := client(t, h2).Get("http://" + tp.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Error("the client read the answer to its end, want it broken")
			}
			_ = resp.Body.Close()
			got, err := tap.Parse(tp.Cut())
			if err != nil {
				t.Fatalf("Parse = %v", err)
			}
			if len(got) != 1 || !got[0].Response.Truncated || string(got[0].Response.Body) != "begin" || got[0].Request.Truncated {
				t.Errorf("exchanges = %+v, want one whose answer is %q, truncated", got, "begin")
			}
		})
	}
}

// Streams pass while they last, and a cut ends them.
func TestPassesAtOnceAndCuts(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		write(t, w, "first\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush = %v", err)
		}
		<-r.Context().Done()
		close(gone)
	})
	tp := before(t, server)
	resp, err := client(t, false).Get("http://" + tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	first := make([]byte, len("first\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatalf("reading the first line of an open stream: %v", err)
	}
	conns := tp.Cut()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended in order after a cut, want it broken")
	}
	<-gone // the server hears of it, too
	got, err := tap.Parse(conns)
	if err != nil || len(got) != 1 || string(got[0].Response.Body) != "first\n" {
		t.Errorf("Parse = %+v, %v, want one exchange with the first line", got, err)
	}
}

// Clients read another address; the recording has the one that was written,
// wherever the reads part it.
func TestSwap(t *testing.T) {
	t.Parallel()
	const from, to = "127.0.0.1:50051", "127.0.0.3:50051"
	written := "a " + from + " b " + from
	for cut := range len(written) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tp, err := tap.Listen(t.Context(), "127.0.0.1:0", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := tp.Swap(from, to); err != nil {
			t.Fatalf("Swap = %v", err)
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", tp.Addr())
		if err != nil {
			t.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		write(t, far, written[:cut])
		// What was written is read before the rest follows, as far as it can go.
		read := readAtLeast(t, conn, max(0, cut-len(from)+1))
		write(t, far, written[cut:])
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		got := string(read) + string(rest)
		if want := strings.ReplaceAll(written, from, to); got != want && !partedEarly(written, cut) {
			t.Errorf("parted at %d, the client read %q, want %q", cut, got, want)
		}
		_ = conn.Close()
		conns := tp.Cut()
		if len(conns) != 1 || !bytes.Equal(conns[0].Received.Bytes, []byte(written)) {
			t.Errorf("parted at %d, recorded %+v, want %q", cut, conns, written)
		}
		if err := tp.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		_ = l.Close()
	}
	tp := before(t, serve(t, func(http.ResponseWriter, *http.Request) {}))
	if err := tp.Swap("127.0.0.1:1", "127.0.0.1:22"); err == nil {
		t.Error("Swap of addresses of different lengths = nil, want an error")
	}
}

// partedEarly reports whether a cut falls within the first bytes of an address,
// which are too few to wait for the rest.
func partedEarly(written string, cut int) bool {
	const from, least = "127.0.0.1:50051", len("127.0.0.1:")
	for at := 0; ; {
		i := strings.Index(written[at:], from)
		if i < 0 {
			return false
		}
		if at += i; cut > at && cut < at+least {
			return true
		}
		at++
	}
}

func write(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Errorf("writing: %v", err)
	}
}

func readAtLeast(t *testing.T, r io.Reader, n int) []byte {
	t.Helper()
	buf := make([]byte, 1024)
	if n == 0 {
		return nil
	}
	n, err := io.ReadAtLeast(r, buf, n)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// A server that is not there is a connection that ends, and no news.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tp, err := tap.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0", nobody)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client(t, false).Get("http://" + tp.Addr()); err == nil {
		_ = resp.Body.Close()
		t.Error("GET = nil, want an error")
	}
	got, err := tap.Parse(tp.Cut())
	if err != nil {
		t.Errorf("Parse = %v", err)
	}
	for _, e := range got {
		if e.Status != 0 || !e.Response.Truncated {
			t.Errorf("exchange = %+v, want none that was answered", e)
		}
	}
	if err := tp.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}
