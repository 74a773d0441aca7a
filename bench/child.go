package main

import (
	"bufio"
	"context"
	"encoding/json"
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
	startTime = 20 * time.Second // far above what a loaded machine needs
	stopTime  = 15 * time.Second // the sidecar drains before it ends
)

// child is a process of ours. Stop ends it.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer // its end tells roles to end
	log    string    // file with its stderr
	exited chan struct{}
	err    error // how it exited; to be read once exited is closed
}

// start starts a program whose standard error goes to a file in dir. If stdout
// is not nil, its standard output goes there.
func start(dir, name string, cmd *exec.Cmd, stdout io.Writer) (*child, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	c := &child{name: name, cmd: cmd, log: log.Name(), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = stdout, log, childEnv(cmd.Env), childAttr()
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// childEnv is this process's environment without what would configure a
// sidecar or its telemetry behind our back.
func childEnv(more []string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SIDECAR_") && !strings.HasPrefix(kv, "OTEL_") {
			env = append(env, kv)
		}
	}
	return append(env, more...)
}

// startRole starts this program in a role and returns the address it printed.
func startRole(ctx context.Context, dir, role, to string) (*child, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = out.Close() }()
	c, err := start(dir, role, exec.Command(self, roleFlag, role, to), in)
	_ = in.Close() // the child has its own
	if err != nil {
		return nil, "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() }) // so that the read ends
	defer stop()
	addr, err := bufio.NewReader(out).ReadString('\n') // ends when the child does
	if err != nil {
		_ = c.stop() // what it said is in the error anyway
		return nil, "", c.fault(fmt.Errorf("it gave no address: %w", errors.Join(err, ctx.Err())))
	}
	return c, strings.TrimSpace(addr), nil
}

// awaitFile waits until the child has written a JSON file and reads it into v.
func (c *child) awaitFile(ctx context.Context, file string, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it gave no addresses within %s", startTime))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// A file that is half written is no JSON yet.
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, v) == nil {
			return nil
		}
		select {
		case <-c.exited:
			return c.fault(errors.Join(errors.New("it exited without giving its addresses"), c.err))
		case <-ctx.Done():
			return c.fault(context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// fault is err with the child's own last words.
func (c *child) fault(err error) error {
	const most = 2000
	said, _ := os.ReadFile(c.log) // without it the error stands alone
	if len(said) > most {
		said = said[len(said)-most:]
	}
	return fmt.Errorf("%s: %w; it said:\n%s", c.name, err, said)
}

// stop ends the child, by force if it takes too long, and waits until it is
// gone. An exit that it made of itself before is an error.
func (c *child) stop() error {
	select {
	case <-c.exited:
		return c.fault(errors.Join(errors.New("it exited early"), c.err))
	default:
	}
	_ = c.stdin.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // if it is gone by now, all the better
	select {
	case <-c.exited:
		return nil
	case <-time.After(stopTime):
		_ = c.cmd.Process.Kill()
		<-c.exited
		return c.fault(fmt.Errorf("it did not stop within %s", stopTime))
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }
