// Package tap records what passes over TCP connections: it stands between two
// programs, passes every byte at once, and keeps a copy.
//
//	client ──▶ Tap ──▶ server       Cut ──▶ []Conn ──Parse──▶ []Exchange
//	       ◀──     ◀──
//
// It knows how HTTP/1.1 and HTTP/2 in the clear stand in bytes, and nothing of
// what they carry. It adds nothing and answers nothing itself, and what it
// parses is what was sent. The one thing that it can change on the way is an
// address in an answer, so that what follows comes past a tap as well: see
// [Tap.Swap].
package tap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Tap listens on one address and forwards to another. Its methods may be called
// concurrently.
type Tap struct {
	target   string
	listener net.Listener
	clock    atomic.Int64 // orders what is recorded
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	conns []*conn
	swap  swap // for connections to come
}

// swap is an address that clients get for another one of the same length.
type swap struct{ from, to []byte }

// Conn is a recorded connection.
type Conn struct {
	Sent     Recording // by the one that dialled
	Received Recording // by it
}

// Recording is one direction of a connection.
type Recording struct {
	Bytes []byte
	marks []mark
}

// mark says when the bytes from an offset on came.
type mark struct {
	offset int
	at     int64
}

// at returns when the byte at an offset came.
func (r Recording) at(offset int) int64 {
	var at int64
	for _, m := range r.marks {
		if m.offset > offset {
			break
		}
		at = m.at
	}
	return at
}

// Listen starts a tap on an address, host:port, before target. It ends with
// ctx, or with Close.
func Listen(ctx context.Context, address, target string) (*Tap, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("tapping %s: %w", target, err)
	}
	t := &Tap{target: target, listener: l}
	t.ctx, t.stop = context.WithCancel(ctx)
	t.running.Go(t.accept)
	return t, nil
}

// Addr is where the tap listens.
func (t *Tap) Addr() string { return t.listener.Addr().String() }

// Close ends the tap with all that passes through it, and waits for that.
func (t *Tap) Close() error {
	t.stop()
	err := t.listener.Close()
	t.Cut()
	t.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Swap makes who dials from now on read the address to wherever the other side
// wrote the address from. Both are as long, so that no length around them is
// wrong then. The recordings have from, as it was written.
func (t *Tap) Swap(from, to string) error {
	if len(from) != len(to) {
		return fmt.Errorf("%s is not as long as %s", from, to)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swap = swap{[]byte(from), []byte(to)}
	return nil
}

// Passed grows with whatever passes.
func (t *Tap) Passed() int64 { return t.clock.Load() }

// Cut closes every connection and returns what passed since the last cut, in
// the order in which the connections came.
func (t *Tap) Cut() []Conn {
	t.mu.Lock()
	conns := t.conns
	t.conns = nil
	t.mu.Unlock()
	all := make([]Conn, 0, len(conns))
	for _, c := range conns {
		c.close()
		c.copying.Wait()
		all = append(all, c.Conn)
	}
	return all
}

func (t *Tap) accept() {
	for {
		near, err := t.listener.Accept()
		if err != nil {
			return // closed: nothing else ends a loopback listener
		}
		t.mu.Lock()
		c := &conn{clock: &t.clock, near: near, swap: t.swap}
		c.copying.Add(1)
		t.conns = append(t.conns, c)
		t.mu.Unlock()
		t.running.Go(func() { c.run(t.ctx, t.target) })
	}
}

// conn is a connection under way. Its recordings may be read once copying is
// done.
type conn struct {
	Conn
	clock   *atomic.Int64
	swap    swap
	near    net.Conn
	copying sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	far    net.Conn
	closed bool
}

// run carries a connection until both directions have ended.
func (c *conn) run(ctx context.Context, target string) {
	defer c.copying.Done()
	defer c.close()
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil || !c.join(far) {
		return // the one that dialled sees its connection end, as it should
	}
	var both sync.WaitGroup
	both.Go(func() { c.pass(far, c.near, &c.Sent, swap{}) })
	both.Go(func() { c.pass(c.near, far, &c.Received, c.swap) })
	both.Wait()
}

// join takes the connection to the target, unless it is too late.
func (c *conn) join(far net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = far.Close() // nothing was sent on it
		return false
	}
	c.far = far
	return true
}

// pass copies one direction to its end, and passes on how it ended: a half that
// is done leaves the other one open, a broken one breaks both.
func (c *conn) pass(to, from net.Conn, r *Recording, swap swap) {
	buf := make([]byte, 64<<10)
	held := 0 // bytes at the start of buf that wait for what follows them
	for {
		n, err := from.Read(buf[held:])
		if n > 0 {
			// Before it is passed: who sees the answer finds the question recorded.
			r.marks = append(r.marks, mark{len(r.Bytes), c.clock.Add(1)})
			r.Bytes = append(r.Bytes, buf[held:held+n]...)
		}
		ready := swap.in(buf[:held+n], err != nil)
		if _, err := to.Write(buf[:ready]); err != nil {
			c.close()
			return
		}
		held = copy(buf, buf[ready:held+n])
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if half, ok := to.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
				c.close()
			}
			return
		default:
			c.close()
			return
		}
	}
}

// in swaps the address within b, and returns how much of b can go: all but a
// start of the address, long enough to be taken for one, that may go on in what
// follows.
func (s swap) in(b []byte, last bool) int {
	if len(s.from) == 0 {
		return len(b)
	}
	for at := 0; ; {
		i := bytes.Index(b[at:], s.from)
		if i < 0 {
			break
		}
		at += i
		at += copy(b[at:], s.to)
	}
	if last {
		return len(b)
	}
	const least = len("127.0.0.1:")
	for n := min(len(s.from)-1, len(b)); n >= least; n-- {
		if bytes.HasSuffix(b, s.from[:n]) {
			return len(b) - n
		}
	}
	return len(b)
}

// close breaks both directions. More than once is harmless.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	_ = c.near.Close() // what was to pass has passed
	if c.far != nil {
		_ = c.far.Close()
	}
}
