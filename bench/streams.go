package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// holdText in a message asks the agent to keep its stream open after the first
// event, until the caller leaves.
const holdText = "hold the line"

// streamsAim is what a sidecar may hold with a thousand streams open, in bytes.
const streamsAim = 60 << 20

const (
	openAtOnce  = 32 // streams that are being opened
	firstEvents = 15 * time.Second
)

// measureStreams opens streams through each proxy, all of which stay open, and
// prints what they cost in memory.
func measureStreams(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	say(stderr, "building and starting the targets\n")
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if _, err := fmt.Fprintf(stdout, "%s\n%d streams open at once, each after its first event\n\n", machine(w), o.streams); err != nil {
		return err
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "proxy\tRSS MB before\tRSS MB with them\tKB a stream\t") // Flush tells
	for _, target := range w.targets {
		if len(target.pids) == 0 {
			continue
		}
		say(stderr, "%s\n", target.title)
		before, err := residentBytes(target.pids[0])
		if err != nil {
			return err
		}
		with, err := holdStreams(ctx, target, o.streams)
		if err != nil {
			return fmt.Errorf("%s: %w", target.title, err)
		}
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.1f\t\n", target.title, float64(before)/(1<<20), float64(with)/(1<<20), float64(with-before)/float64(o.streams)/1024)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\naim: at most %d MB with 1000 streams\n", streamsAim>>20)
	return err
}

// holdStreams opens n streams to t and returns what its proxy then holds.
func holdStreams(ctx context.Context, t *target, n int) (resident int64, err error) {
	conns := make([]net.Conn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // nothing more is expected of it
			}
		}
	}()
	salt := strconv.FormatUint(rand.Uint64(), 36)
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	for i := range conns {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			var err error
			conns[i], err = holdStream(t, fmt.Sprintf("%s-%d", salt, i))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return residentBytes(t.pids[0])
}

// holdStream opens one stream and reads its first event.
func holdStream(t *target, id string) (net.Conn, error) {
	c, err := net.Dial("tcp", t.addr)
	if err != nil {
		return nil, err
	}
	body := `{"jsonrpc":"2.0","id":"` + id + `","method":"` + methodStream + `","params":{"message":{"messageId":"` + id +
		`","contextId":"c` + id + `","role":"ROLE_USER","parts":[{"text":"` + holdText + `"}]}}}`
	head := "POST " + t.path + " HTTP/1.1\r\nHost: " + t.addr + "\r\nContent-Type: application/json\r\nA2A-Version: 1.0" +
		"\r\nX-Kagent-Root-Context-Id: r" + id + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if err := c.SetDeadline(time.Now().Add(firstEvents)); err != nil {
		return c, err
	}
	if _, err := io.WriteString(c, head+body); err != nil {
		return c, err
	}
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return c, fmt.Errorf("stream %s: %w", id, err)
		}
		if strings.HasPrefix(line, "data: ") {
			break
		}
	}
	return c, c.SetDeadline(time.Time{})
}
