package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
	playTimeout  = 90 * time.Second // of one scenario; a thousand errors take longest
)

// process is a program that runs until it is told to stop.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has ended
	err  error         // how; set before
}

// start runs a command. Its output goes to a log named after it; said hears
// every line of its standard output.
func (l *lab) start(ctx context.Context, name string, argv []string, said func(line string)) (*process, error) {
	log, err := os.Create(filepath.Join(l.work, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), log: log, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr = l.work, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTimeout
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), log.Close())
	}
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			said(lines.Text())
		}
		_, _ = io.Copy(io.Discard, out) // past a line too long
		p.err = errors.Join(p.cmd.Wait(), log.Close())
	}()
	return p, nil
}

// stop tells the program to end, and waits for it. How it ends does not matter:
// what it had to say it has said.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// errEarly is how a program ended that should have gone on.
var errEarly = errors.New("without an error")

// await waits for a word of the program's, or until it has ended.
func (p *process) await(ctx context.Context, word <-chan struct{}) error {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-word:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended before it was ready: %w%s", p.name, cmp.Or(p.err, errEarly), p.said())
	case <-timer.C:
		return fmt.Errorf("%s was not ready after %s%s", p.name, startTimeout, p.said())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// said is the end of the program's log.
func (p *process) said() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	return ":\n" + last(string(b), 1500)
}

// last is the end of a text.
func last(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		s = "… " + s[len(s)-n:]
	}
	return s
}

// exitUnsupported is how a client ends that cannot do what was asked.
const exitUnsupported = 3

// played is what came of one run of a client.
type played struct {
	lines   []string // its standard output
	refused string   // why it cannot do this; empty: it can
	err     error    // it broke
}

// play runs a client to its end.
func (l *lab) play(ctx context.Context, argv []string) played {
	ctx, cancel := context.WithTimeout(ctx, playTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.work, &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	err := cmd.Run()
	p := played{lines: strings.Split(strings.TrimSpace(stdout.String()), "\n")}
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		p.err = fmt.Errorf("the client did not end within %s; it had said %s", playTimeout, last(stdout.String(), 300))
	case ok && exit.ExitCode() == exitUnsupported:
		p.refused = last(stderr.String(), 200)
		if p.refused == "" {
			p.refused = "the client says no more"
		}
	case err != nil:
		p.err = fmt.Errorf("the client failed: %w: %s", err, last(stderr.String(), 600))
	}
	return p
}
