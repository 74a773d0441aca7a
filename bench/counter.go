package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// counter stands between a client and a Redis server and counts the commands and
// the bytes that pass. The server's own INFO counts whoever asks it, too, and
// does not tell what a script called from what a client sent.
type counter struct {
	listener     net.Listener
	to           string
	commands     atomic.Int64
	in, out      atomic.Int64 // bytes, as the server sees them
	passing      sync.WaitGroup
	mu           sync.Mutex // guards conns
	conns        []net.Conn
	closed       bool
	acceptFailed error // to be read once passing is done
}

// countInFrontOf begins to pass connections on to a server, until close.
func countInFrontOf(addr string) (*counter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("counting commands: %w", err)
	}
	c := &counter{listener: l, to: addr}
	c.passing.Go(func() { c.acceptFailed = c.accept() })
	return c, nil
}

func (c *counter) addr() string { return c.listener.Addr().String() }

func (c *counter) counts() (commands, in, out int64) {
	return c.commands.Load(), c.in.Load(), c.out.Load()
}

// close ends all connections.
func (c *counter) close() error {
	c.mu.Lock()
	c.closed = true
	for _, conn := range c.conns {
		_ = conn.Close() // what it cuts off is of no use any more
	}
	c.mu.Unlock()
	err := c.listener.Close()
	c.passing.Wait()
	return errors.Join(err, c.acceptFailed)
}

func (c *counter) accept() error {
	for {
		client, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("counting commands: %w", err)
		}
		server, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = client.Close() // it sees that
			continue
		}
		if !c.keep(client, server) {
			return nil
		}
		c.passing.Go(func() {
			c.forth(server, client)
			_ = server.Close()
		})
		c.passing.Go(func() {
			c.back(client, server)
			_ = client.Close()
		})
	}
}

// keep notes connections to be closed by close, unless that has been called.
func (c *counter) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		for _, conn := range conns {
			_ = conn.Close() // unused
		}
		return false
	}
	c.conns = append(c.conns, conns...)
	return true
}

// forth passes what a client sends, until either side ends.
func (c *counter) forth(server io.Writer, client io.Reader) {
	r := bufio.NewReaderSize(client, 64<<10)
	var buf []byte
	for {
		var err error
		if buf, err = appendCommand(buf, r); err != nil {
			return // the client has gone
		}
		c.commands.Add(1)
		if r.Buffered() > 0 && len(buf) < 1<<20 {
			continue // a pipeline leaves as it came
		}
		c.in.Add(int64(len(buf)))
		if _, err := server.Write(buf); err != nil {
			return
		}
		buf = buf[:0]
	}
}

// back passes what the server answers.
func (c *counter) back(client io.Writer, server io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		c.out.Add(int64(n))
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// appendCommand appends the next command as it is on the wire: an array of bulk
// strings, the one form in which clients send.
func appendCommand(buf []byte, r *bufio.Reader) ([]byte, error) {
	header := func(mark byte) (int, error) {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		buf = append(buf, line...)
		if len(line) < 4 || line[0] != mark {
			return 0, fmt.Errorf("a command has the line %q", line)
		}
		return strconv.Atoi(string(line[1 : len(line)-2]))
	}
	words, err := header('*')
	if err != nil {
		return buf, err
	}
	for range words {
		length, err := header('$')
		if err != nil {
			return buf, err
		}
		at := len(buf)
		buf = append(buf, make([]byte, length+2)...)
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf, err
		}
	}
	return buf, nil
}
