package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendCommand(t *testing.T) {
	t.Parallel()
	const hset, ping = "*4\r\n$4\r\nHSET\r\n$1\r\nk\r\n$1\r\nf\r\n$4\r\n\r\n*9\r\n", "*1\r\n$4\r\nPING\r\n"
	r := bufio.NewReaderSize(strings.NewReader(hset+ping+"*1\r\n$4\r\nPI"), 16)
	var got []byte
	n := 0
	for {
		var err error
		if got, err = appendCommand(got, r); err != nil {
			break
		}
		n++
	}
	if n != 2 || !bytes.HasPrefix(got, []byte(hset+ping)) {
		t.Errorf("%d commands, %q, want 2, and %q first", n, got, hset+ping)
	}
	for _, wrong := range []string{"PING\r\n", "*1\r\n+OK\r\n", "*x\r\n", "*\n"} {
		if got, err := appendCommand(nil, bufio.NewReader(strings.NewReader(wrong))); err == nil {
			t.Errorf("appendCommand(%q) = %q, want an error", wrong, got)
		}
	}
}

// What passes is what came, and all of it is counted.
func TestCounter(t *testing.T) {
	t.Parallel()
	server, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	const sent, answer = "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", "+PONG\r\n$2\r\nhi\r\n"
	got := make(chan string, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		b := make([]byte, len(sent))
		_, err = io.ReadFull(conn, b)
		if _, werr := io.WriteString(conn, answer); err == nil {
			err = werr
		}
		if err != nil {
			b = []byte(err.Error())
		}
		got <- string(b)
		_ = conn.Close()
	}()
	c, err := countInFrontOf(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, sent); err != nil {
		t.Fatal(err)
	}
	heard, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{sent, answer}, []string{<-got, string(heard)}); diff != "" {
		t.Errorf("passed (-want +got):\n%s", diff)
	}
	commands, in, out := c.counts()
	if want := []int64{2, int64(len(sent)), int64(len(answer))}; !slices.Equal([]int64{commands, in, out}, want) {
		t.Errorf("counts() = %d, %d, %d, want %d", commands, in, out, want)
	}
	if err := c.close(); err != nil {
		t.Errorf("close() = %v, want nil", err)
	}
}
