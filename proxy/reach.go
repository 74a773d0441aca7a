package proxy

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// spareFor is how long a connection that was made to see whether an agent
	// is there is kept for the next call. Nobody reads it in the meantime, so
	// nobody would notice its end.
	spareFor = 2 * time.Second
)

// reach knows whether an agent can be reached before a call to it is admitted:
// a call that cannot even be sent should not take a place and leave a failed
// session behind. A connection that is open now is proof enough; without one,
// it makes one and hands it to the transport for its next dial, so that looking
// costs nothing.
type reach struct {
	addr string // host:port
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu      sync.Mutex  // guards the fields below
	open    int         // connections of the transport
	spare   net.Conn    // made by a look, nil if none
	expiry  *time.Timer // closes spare; nil if there never was one
	looking *look       // under way, nil if none
}

// look is a look that all share who come while it lasts: an agent that does
// not answer at all costs each of them one dial's time-out, not one after another.
type look struct {
	done chan struct{} // closed when err is set
	err  error
	gone bool // it was given up because its caller went away
}

func newReach(addr string) *reach {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &reach{addr: addr, dial: d.DialContext}
}

// look returns nil if the agent can be reached, else what the dial said.
func (r *reach) look(ctx context.Context) error {
	for {
		r.mu.Lock()
		if r.open > 0 || r.spare != nil {
			r.mu.Unlock()
			return nil
		}
		l := r.looking
		if l == nil {
			l = &look{done: make(chan struct{})}
			r.looking = l
			r.mu.Unlock()
			r.try(ctx, l)
			return l.err
		}
		r.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !l.gone {
			return l.err
		}
	}
}

// try carries out a look.
func (r *reach) try(ctx context.Context, l *look) {
	conn, err := r.dial(ctx, "tcp", r.addr)
	l.err, l.gone = err, err != nil && ctx.Err() != nil
	r.mu.Lock()
	if err == nil {
		r.spare = conn
		r.expiry = time.AfterFunc(spareFor, func() { r.expire(conn) })
	}
	r.looking = nil
	r.mu.Unlock()
	close(l.done)
}

// DialContext is the transport's dial.
func (r *reach) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if spare := r.take(); spare != nil {
		return r.count(spare), nil
	}
	conn, err := r.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return r.count(conn), nil
}

// take returns the spare connection, which is the caller's then; nil if there
// is none.
func (r *reach) take() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	spare := r.spare
	if r.spare = nil; spare != nil {
		r.expiry.Stop()
	}
	return spare
}

// expire closes conn if it is still the spare one.
func (r *reach) expire(conn net.Conn) {
	r.mu.Lock()
	mine := r.spare == conn
	if mine {
		r.spare = nil
	}
	r.mu.Unlock()
	if mine {
		_ = conn.Close() // nothing was sent on it
	}
}

// close drops the spare connection. The transport closes its own.
func (r *reach) close() {
	if spare := r.take(); spare != nil {
		_ = spare.Close() // nothing was sent on it
	}
}

func (r *reach) count(c net.Conn) net.Conn {
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	return &countedConn{Conn: c, reach: r}
}

// countedConn is a connection of the transport. The transport reads idle
// connections, so one whose agent has gone is closed, and counted out, at once.
type countedConn struct {
	net.Conn
	reach *reach
	once  sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.reach.mu.Lock()
		c.reach.open--
		c.reach.mu.Unlock()
	})
	return c.Conn.Close()
}
