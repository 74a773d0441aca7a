package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tooMany failures end a measurement early: it has nothing more to say.
const tooMany = 20

// patience is how long after its planned end a measurement may still wait for
// an answer.
const patience = 15 * time.Second

// tally counts calls that went wrong, and keeps the first reason.
type tally struct {
	mu    sync.Mutex // guards what follows
	n     int
	first error
}

// add returns errTooMany once there is no use in going on.
func (t *tally) add(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n++; t.n == 1 {
		t.first = err
	}
	if t.n >= tooMany {
		return errTooMany
	}
	return nil
}

var errTooMany = errors.New("too many calls failed")

// generator makes calls to targets. One measurement runs at a time.
type generator struct {
	salt  string
	tree  uint64        // calls to a conversation
	calls atomic.Uint64 // made so far, to all targets: no number comes twice
}

// caller makes one goroutine's calls of one method to one target.
type caller struct {
	gen    *generator
	to     *target
	msg    *message
	stream bool
	until  time.Time
	failed *tally
	conn   *conn       // nil: not connected
	unbind func() bool // conn from the measurement's context
}

func (g *generator) caller(ctx context.Context, to *target, m *message, stream bool, until time.Time, failed *tally) (*caller, error) {
	c := &caller{gen: g, to: to, msg: m.clone(), stream: stream, until: until.Add(patience), failed: failed}
	return c, c.connect(ctx)
}

func (c *caller) connect(ctx context.Context) error {
	conn, err := dial(c.to.addr)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.to.name, err)
	}
	if err := conn.SetDeadline(c.until); err != nil {
		return err
	}
	c.conn = conn
	c.unbind = context.AfterFunc(ctx, func() { _ = conn.Close() }) // its user sees the error
	return nil
}

func (c *caller) close() {
	if c.conn == nil {
		return
	}
	c.unbind()
	_ = c.conn.Close() // nothing is pending
	c.conn = nil
}

// call makes the next call. A call that failed is tallied, is no error unless
// there are too many, and its ok is false.
func (c *caller) call(ctx context.Context) (a answer, ok bool, err error) {
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return a, false, errors.Join(ctx.Err(), c.failed.add(err))
		}
	}
	n := c.gen.calls.Add(1)
	c.msg.number(n, n/c.gen.tree)
	a, err = c.conn.do(c.msg.raw)
	if err == nil {
		err = c.msg.check(a, c.conn.body, c.stream, c.to.sidecar)
	}
	if err != nil {
		c.close()
		if ctx.Err() != nil {
			return a, false, ctx.Err()
		}
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			err = fmt.Errorf("no answer within %s: %w", patience, err)
		}
		return a, false, c.failed.add(fmt.Errorf("%s of %s: %w", c.msg.method, c.to.name, err))
	}
	return a, true, nil
}

// crew runs work on n callers and waits for all. The first error ends all, and
// is returned.
func (g *generator) crew(ctx context.Context, n int, to *target, stream bool, until time.Time, failed *tally,
	work func(ctx context.Context, i int, c *caller) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	method := methodSend
	if stream {
		method = methodStream
	}
	m := newMessage(method, to.addr, to.path, g.salt)
	errs := make(chan error, n)
	for i := range n {
		go func() {
			c, err := g.caller(ctx, to, m, stream, until, failed)
			if err == nil {
				err = work(ctx, i, c)
				c.close()
			}
			errs <- err
		}()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// saturate has conns callers call without pause, and returns the calls that
// were answered per second, after a warm-up, and the number of all calls.
func (g *generator) saturate(ctx context.Context, to *target, conns int, warm, length time.Duration, failed *tally) (rate float64, made int, err error) {
	// Each counts by itself, a cache line apart.
	type counter struct {
		atomic.Int64
		_ [56]byte
	}
	done := make([]counter, conns)
	sum := func() (n int64) {
		for i := range done {
			n += done[i].Load()
		}
		return n
	}
	ended := make(chan struct{})
	ticking := make(chan struct{})
	begin := time.Now().Add(warm)
	end := begin.Add(length)
	go func() {
		defer close(ticking)
		if !pause(ctx, ended, time.Until(begin)) {
			return
		}
		from, n := time.Now(), sum()
		if !pause(ctx, ended, time.Until(end)) {
			return
		}
		rate = float64(sum()-n) / time.Since(from).Seconds()
	}()
	// The callers go on a little, so that the window sees them all at work.
	stop := end.Add(20 * time.Millisecond)
	err = g.crew(ctx, conns, to, false, end, failed, func(ctx context.Context, i int, c *caller) error {
		for time.Now().Before(stop) {
			_, ok, err := c.call(ctx)
			if err != nil {
				return err
			}
			if ok {
				done[i].Add(1)
			}
		}
		return nil
	})
	close(ended)
	<-ticking
	return rate, int(sum()), err
}

// pause waits for d, unless what it waits in ends.
func pause(ctx context.Context, ended <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ended:
	case <-ctx.Done():
	}
	return false
}

// streams has conns callers stream without pause, and returns for each stream
// the time to its first event.
func (g *generator) streams(ctx context.Context, to *target, conns int, length time.Duration, failed *tally) ([]time.Duration, error) {
	taken := make([][]time.Duration, conns)
	end := time.Now().Add(length)
	err := g.crew(ctx, conns, to, true, end, failed, func(ctx context.Context, i int, c *caller) error {
		for first := true; time.Now().Before(end); first = false {
			sent := time.Now()
			a, ok, err := c.call(ctx)
			if err != nil {
				return err
			}
			if ok && !first { // the first one connects
				taken[i] = append(taken[i], a.first.Sub(sent))
			}
		}
		return nil
	})
	return flat(taken), err
}

// steady makes calls at a fixed rate whatever the answers do, and returns how
// long each took from the moment at which it was due. So a target that stalls
// pays for all the calls that it kept waiting, not for one.
func (g *generator) steady(ctx context.Context, to *target, rate int, length time.Duration, failed *tally) ([]time.Duration, error) {
	s := schedule{every: time.Second / time.Duration(rate), n: int(length.Seconds() * float64(rate)), sleepUntil: sleepUntil}
	due := make(chan time.Time, s.n)
	taken := make([][]time.Duration, openConns)
	connected := make(chan struct{}, openConns)
	paced := make(chan struct{})
	pacing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(paced)
		for range openConns {
			select {
			case <-connected:
			case <-pacing.Done():
			}
		}
		s.run(pacing, due)
	}()
	err := g.crew(ctx, openConns, to, false, time.Now().Add(length), failed, func(ctx context.Context, i int, c *caller) error {
		_, _, err := c.call(ctx) // connects, here and behind a proxy
		connected <- struct{}{}
		if err != nil {
			return err
		}
		taken[i], err = answerDue(ctx, due, func() (bool, error) {
			_, ok, err := c.call(ctx)
			return ok, err
		})
		return err
	})
	stop()
	<-paced
	return flat(taken), err
}

// openConns are enough that a call never waits for a connection before
// hundreds are late.
const openConns = 48

// schedule says when calls are due.
type schedule struct {
	every      time.Duration
	n          int
	sleepUntil func(time.Time)
}

// run announces the n due times as they come, and closes due. It never waits
// for who listens: due has room for all.
func (s schedule) run(ctx context.Context, due chan<- time.Time) {
	defer close(due)
	at := time.Now()
	for range s.n {
		at = at.Add(s.every)
		s.sleepUntil(at)
		if ctx.Err() != nil {
			return
		}
		due <- at
	}
}

// answerDue makes one call for each due time that it gets, and returns the time
// from due to done of each call that is ok.
func answerDue(ctx context.Context, due <-chan time.Time, call func() (ok bool, err error)) ([]time.Duration, error) {
	var taken []time.Duration
	for {
		select {
		case <-ctx.Done():
			return taken, ctx.Err()
		case at, more := <-due:
			if !more {
				return taken, nil
			}
			ok, err := call()
			if err != nil {
				return taken, err
			}
			if ok {
				taken = append(taken, time.Since(at))
			}
		}
	}
}

func flat(parts [][]time.Duration) []time.Duration {
	var all []time.Duration
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// milliseconds of a percentile; NaN of nothing.
func milliseconds(taken []time.Duration, p float64) float64 {
	if len(taken) == 0 {
		return math.NaN()
	}
	return float64(percentile(taken, p)) / float64(time.Millisecond)
}
