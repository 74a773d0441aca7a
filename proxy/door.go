package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// door is the sidecar's own way in to its proxy: a server without a port, which
// only this process reaches. By it calls of the sidecar's own accord pass the
// data path as anybody's do, and what the agent answers is read by the tap.
//
//	a2a-go's client ─dial─▶ door ─▶ handler ─▶ Proxy ─▶ agent
//
// It speaks HTTP/1.1 and, for gRPC, HTTP/2. Each connection is one call's, which
// its requests find in their context.
type door struct {
	server *http.Server
	pipes  pipes
	served chan struct{} // closed when the server has ended
}

func openDoor(handler http.Handler, log *slog.Logger) *door {
	d := &door{
		pipes:  pipes{conns: make(chan net.Conn), shut: make(chan struct{})},
		served: make(chan struct{}),
	}
	d.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: dialTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			own, _ := c.(ownConn)
			return context.WithValue(ctx, ownKey{}, own.call)
		},
	}
	d.server.Protocols.SetHTTP1(true)
	d.server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		defer close(d.served)
		_ = d.server.Serve(&d.pipes) // it ends when the door is closed, and never before
	}()
	return d
}

// dial connects the client of a call to the door.
func (d *door) dial(ctx context.Context, call *ownCall) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case d.pipes.conns <- ownConn{far, call}:
		return near, nil
	case <-d.pipes.shut:
		return nil, errShut
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close cuts off the calls that are under way and takes no more.
func (d *door) close() {
	_ = d.server.Close() // closing pipes never fails
	<-d.served
}

// errShut: a call of the sidecar's own accord comes when there are to be no more.
var errShut = errors.New("the sidecar is stopping")

// ownConn is the door's end of a connection that is made for one call.
type ownConn struct {
	net.Conn
	call *ownCall
}

// ownKey is the context key of the [ownCall] that a request belongs to.
type ownKey struct{}

// ownOf returns the call of the sidecar's own that a request belongs to, nil if
// it is somebody else's.
func ownOf(ctx context.Context) *ownCall {
	call, _ := ctx.Value(ownKey{}).(*ownCall)
	return call
}

// pipes is a listener whose connections are made within the process.
type pipes struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once // closes shut
}

// Accept implements [net.Listener].
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.shut) })
	return nil
}

// Addr implements [net.Listener].
func (*pipes) Addr() net.Addr { return pipeAddr{} }

// pipeAddr is the address of what has none.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
