package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// sessionHeader is asked of every answer that came through a sidecar: it says that
// the call was recorded.
const sessionHeader = "x-sidecar-session-id"

// conn is one keep-alive connection to a target. It speaks just enough
// HTTP/1.1: net/http's client costs about as much as a proxy does, and the
// generator shares the cores with what it measures. One goroutine uses it.
type conn struct {
	net.Conn
	in   *bufio.Reader
	body []byte // of the answer at hand
}

func dial(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 8<<10)}, nil
}

// answer is the head of a response, and when its body began to make sense.
type answer struct {
	status   int
	recorded bool      // bears sessionHeader
	first    time.Time // when the first whole event was there; zero for none
}

// do sends a whole request and reads the whole answer. The body is in c.body
// until the next call. After an error the connection is of no use.
func (c *conn) do(request []byte) (answer, error) {
	if _, err := c.Write(request); err != nil {
		return answer{}, err
	}
	var a answer
	line, err := c.line()
	if err != nil {
		return a, err
	}
	if a.status, err = status(line); err != nil {
		return a, err
	}
	length, chunked := -1, false
	for {
		if line, err = c.line(); err != nil {
			return a, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch value = bytes.TrimSpace(value); {
		case strings.EqualFold(string(name), "Content-Length"):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return a, fmt.Errorf("answer's length: %w", err)
			}
		case strings.EqualFold(string(name), "Transfer-Encoding"):
			chunked = true
		case strings.EqualFold(string(name), sessionHeader):
			a.recorded = true
		}
	}
	c.body = c.body[:0]
	switch {
	case chunked:
		return a, c.readChunks(&a)
	case length >= 0:
		return a, c.read(length)
	}
	return a, errors.New("the answer has no length")
}

// status reads "HTTP/1.1 200 OK".
func status(line []byte) (int, error) {
	_, rest, _ := bytes.Cut(line, []byte{' '})
	code, _, _ := bytes.Cut(rest, []byte{' '})
	n, err := strconv.Atoi(string(code))
	if err != nil {
		return 0, fmt.Errorf("status line %q", line)
	}
	return n, nil
}

// line returns the next line without its end, until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// read appends n bytes to the body.
func (c *conn) read(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, 2*(at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.in, c.body[at:])
	return err
}

var blankLine = []byte("\n\n")

func (c *conn) readChunks(a *answer) error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseInt(string(size), 16, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("chunk of size %q", line)
		}
		if n > 0 {
			if err := c.read(int(n)); err != nil {
				return err
			}
			if a.first.IsZero() && bytes.Contains(c.body, blankLine) {
				a.first = time.Now()
			}
		}
		end, err := c.line()
		if err != nil {
			return err
		}
		if len(end) != 0 { // trailers come only from whom we have not asked
			return fmt.Errorf("chunk ends with %q", end)
		}
		if n == 0 {
			return nil
		}
	}
}
