package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// network is a network on which dials take their time. It is used within a
// synctest bubble, whose clock stands still while anything runs.
type network struct {
	takes time.Duration
	err   error
	dials int
	conns []*pipe
}

// pipe is a connection that tells whether it was closed.
type pipe struct {
	net.Conn
	closed atomic.Bool
}

func (p *pipe) Close() error {
	if p.closed.Swap(true) {
		return errors.New("closed twice")
	}
	return p.Conn.Close()
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.dials++
	select {
	case <-time.After(n.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.err != nil {
		return nil, n.err
	}
	here, _ := net.Pipe()
	c := &pipe{Conn: here}
	n.conns = append(n.conns, c)
	return c, nil
}

func (n *network) reach() *reach {
	return &reach{addr: "agent:80", dial: n.dial}
}

func TestLookMakesTheNextConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		r := n.reach()
		for range 3 {
			if err := r.look(t.Context()); err != nil {
				t.Fatalf("look = %v", err)
			}
		}
		conn, err := r.DialContext(t.Context(), "tcp", "agent:80")
		if err != nil || n.dials != 1 {
			t.Fatalf("DialContext after 3 looks = %v with %d dials, want 1", err, n.dials)
		}
		// While there is a connection there is nothing to look for.
		time.Sleep(time.Hour)
		if err := r.look(t.Context()); err != nil || n.dials != 1 {
			t.Errorf("look beside a connection = %v with %d dials, want 1", err, n.dials)
		}
		second, err := r.DialContext(t.Context(), "tcp", "agent:80")
		if err != nil || n.dials != 2 {
			t.Errorf("second DialContext = %v with %d dials, want 2", err, n.dials)
		}
		// Once all are closed, however often, the next look dials.
		_, _, _ = conn.Close(), conn.Close(), second.Close()
		if err := r.look(t.Context()); err != nil || n.dials != 3 {
			t.Errorf("look after all are closed = %v with %d dials, want 3", err, n.dials)
		}
		r.close()
		r.close()
		for i, c := range n.conns {
			if !c.closed.Load() {
				t.Errorf("connection %d is left open", i)
			}
		}
	})
}

// A connection that nobody reads may be dead before anybody notices.
func TestStaleSpareIsDropped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		next func(context.Context, *reach) error
	}{
		{"by a look", func(ctx context.Context, r *reach) error { return r.look(ctx) }},
		{"by a dial", func(ctx context.Context, r *reach) error {
			conn, err := r.DialContext(ctx, "tcp", "agent:80")
			if err == nil {
				_ = conn.Close()
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{}
				r := n.reach()
				if err := r.look(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(spareFor)
				synctest.Wait()
				if err := tt.next(t.Context(), r); err != nil || n.dials != 2 || !n.conns[0].closed.Load() {
					t.Errorf("next = %v with %d dials, first closed: %v; want 2 and closed", err, n.dials, n.conns[0].closed.Load())
				}
				r.close()
			})
		})
	}
}

// Nobody need come for the spare connection to be closed; one that somebody
// took is theirs.
func TestSpareExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		r := n.reach()
		if err := r.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(spareFor - time.Nanosecond)
		synctest.Wait()
		if n.conns[0].closed.Load() {
			t.Errorf("spare connection was closed before %v", spareFor)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !n.conns[0].closed.Load() {
			t.Errorf("spare connection is open after %v", spareFor)
		}

		if err := r.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		conn, err := r.DialContext(t.Context(), "tcp", "agent:80")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * spareFor)
		synctest.Wait()
		if n.conns[1].closed.Load() {
			t.Error("connection in use was closed as a spare one")
		}
		_ = conn.Close()
		r.close()
	})
}

// An agent that does not answer at all costs every caller one time-out, not
// one after another; and who leaves waits no longer.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{takes: dialTimeout, err: errors.New("no route")}
		r := n.reach()
		began := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := r.look(t.Context()); !errors.Is(err, n.err) {
					t.Errorf("look = %v, want what the dial said", err)
				}
			})
		}
		synctest.Wait() // until all of them wait
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.look(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("look of one who leaves = %v after %v, want its own end after 1 s", err, time.Since(began))
		}
		wg.Wait()
		if took := time.Since(began); took != dialTimeout || n.dials != 1 {
			t.Errorf("100 looks took %v and %d dials, want %v and 1", took, n.dials, dialTimeout)
		}
	})
}

// The look does not end for the others because its caller went away.
func TestLookOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{takes: 2 * time.Second}
		r := n.reach()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- r.look(ctx) }()
		synctest.Wait()
		if err := r.look(t.Context()); err != nil || n.dials != 2 {
			t.Errorf("second look = %v with %d dials, want a dial of its own", err, n.dials)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first look = %v, want its own end", err)
		}
		r.close()
	})
}
