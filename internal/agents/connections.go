package agents

import (
	"errors"
	"net"
	"sync"
)

// connections are the connections to an agent's listeners that are open.
type connections struct {
	mu   sync.Mutex // guards open
	open map[net.Conn]struct{}
}

// listener returns l, but that what it accepts is known to c.
func (c *connections) listener(l net.Listener) net.Listener { return trackedListener{l, c} }

// cut closes those that are open now.
func (c *connections) cut() error {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	var err error
	for conn := range open {
		err = errors.Join(err, conn.Close())
	}
	return err
}

type trackedListener struct {
	net.Listener
	connections *connections
}

func (l trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := l.connections
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[net.Conn]struct{}{}
	}
	c.open[conn] = struct{}{}
	return trackedConn{conn, c}, nil
}

type trackedConn struct {
	net.Conn
	connections *connections
}

func (t trackedConn) Close() error {
	t.connections.mu.Lock()
	delete(t.connections.open, t.Conn)
	t.connections.mu.Unlock()
	return t.Conn.Close()
}
