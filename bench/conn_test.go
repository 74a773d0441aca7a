package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// over a pipe, c reads what an HTTP server would have said.
func answering(t *testing.T, said string) *conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	go func() {
		_, _ = io.ReadFull(there, make([]byte, 3))
		_, _ = io.WriteString(there, said)
		_ = there.Close()
	}()
	return &conn{Conn: here, in: bufio.NewReader(here)}
}

func TestConn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, said string
		status     int
		body       string
		recorded   bool
		first      bool
		err        string
	}{
		{name: "length", said: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-Sidecar-Session-Id: s\r\n\r\nhello", status: 200, body: "hello", recorded: true},
		{name: "empty", said: "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", status: 204},
		{name: "chunks", said: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nA;x=y\r\nlo, hello!\r\n0\r\n\r\n", status: 200, body: "hello, hello!"},
		{name: "events", said: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\n\n\r\n3\r\nb\n\n\r\n0\r\n\r\n", status: 200, body: "a\n\nb\n\n", first: true},
		{name: "no length", said: "HTTP/1.1 200 OK\r\n\r\nhello", err: "no length"},
		{name: "cut", said: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", err: "unexpected EOF"},
		{name: "cut chunk", said: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", err: "unexpected EOF"},
		{name: "chunks without end", said: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", err: "unexpected EOF"},
		{name: "bad chunk", said: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", err: `chunk of size "x"`},
		{name: "long chunk", said: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhello\r\n", err: "chunk ends with"},
		{name: "silence", said: "", err: "unexpected EOF"},
		{name: "not HTTP", said: "hello\r\n", err: "status line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := answering(t, tt.said)
			a, err := c.do([]byte("GET"))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("do() = %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || a.status != tt.status || a.recorded != tt.recorded || a.first.IsZero() == tt.first || string(c.body) != tt.body {
				t.Errorf("do() = %+v, %v with body %q, want %+v", a, err, c.body, tt)
			}
		})
	}
}
