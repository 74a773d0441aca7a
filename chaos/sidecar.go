package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
)

const (
	startTime = 30 * time.Second // far above what a loaded machine needs
	stopTime  = 20 * time.Second // a sidecar drains before it ends
)

// sidecar is one that is killed and started again, each time at new ports. Its
// methods may be called concurrently, but for start, kill and stop.
type sidecar struct {
	number int
	name   string
	bin    string
	env    []string
	file   string // its configuration
	log    string
	ledger *ledger // nil: nobody counts

	mu       sync.Mutex // guards the fields below
	life     int
	outbound string // URL, of this life
	admin    string
	cmd      *exec.Cmd
	exited   chan struct{} // closed when the process of this life has ended
	downed   bool          // by us
	killed   map[int]time.Time
}

// object is JSON to be; JSON is YAML.
type object map[string]any

func newSidecar(number int, dir, name, bin string, env []string, config object, l *ledger) (*sidecar, error) {
	name = fmt.Sprintf("%s-sidecar-%d", name, number+1)
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	s := &sidecar{
		number: number, name: name, bin: bin, env: env, ledger: l, killed: map[int]time.Time{},
		file: filepath.Join(dir, name+".yml"), log: filepath.Join(dir, name+".log"),
	}
	return s, os.WriteFile(s.file, b, 0o600)
}

// start begins the next life.
func (s *sidecar) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	addrs := s.file + ".addrs"
	if err := os.Remove(addrs); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier life
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	cmd := exec.Command(s.bin, "serve", "--config", s.file, "--addr-file", addrs)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = log, log, s.env, childAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // why it ended stands in its log
		close(exited)
	}()
	s.mu.Lock()
	s.life++
	s.cmd, s.exited, s.downed = cmd, exited, false
	s.mu.Unlock()
	var bound struct{ Outbound, Admin string }
	if err := awaitFile(ctx, addrs, exited, &bound); err != nil {
		return s.fault(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbound, s.admin = asURL(bound.Outbound), asURL(bound.Admin)
	return nil
}

func asURL(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	return "http://" + addr
}

// awaitFile waits for a JSON file that a process writes, and reads it into v.
func awaitFile(ctx context.Context, file string, exited <-chan struct{}, v any) error {
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
		case <-exited:
			return errors.New("it exited without giving its addresses")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// fault is err with the sidecar's own last words.
func (s *sidecar) fault(err error) error {
	const most = 3000
	said, rerr := os.ReadFile(s.log)
	if rerr != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return fmt.Errorf("%s: %w; it said:\n%s", s.name, err, said[max(0, len(said)-most):])
}

// at returns where the sidecar is, or was while it lived, and which life that is.
func (s *sidecar) at() (outbound string, by life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outbound, life{s.number, s.life}
}

// api returns a client of the admin API.
func (s *sidecar) api() (*adminapi.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return adminapi.New(s.admin, "", nil)
}

// adminURL is the URL of the admin address.
func (s *sidecar) adminURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admin
}

// kill kills the process as a crash would, and waits until it is gone.
func (s *sidecar) kill() error {
	_, now := s.at()
	if s.ledger != nil {
		s.ledger.killing(now)
	}
	if err := s.down(syscall.SIGKILL); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed[now.Number] = time.Now()
	return nil
}

// stop ends the process in order.
func (s *sidecar) stop() error { return s.down(syscall.SIGTERM) }

func (s *sidecar) down(by syscall.Signal) error {
	s.mu.Lock()
	cmd, exited, was := s.cmd, s.exited, s.downed
	s.downed = true
	s.mu.Unlock()
	if cmd == nil || was {
		return nil
	}
	select {
	case <-exited:
		return s.fault(errors.New("it exited of its own accord"))
	default:
	}
	_ = cmd.Process.Signal(by) // if it is gone by now, the wait says so
	select {
	case <-exited:
		return nil
	case <-time.After(stopTime):
		_ = cmd.Process.Kill() // likewise
		<-exited
		return s.fault(fmt.Errorf("it did not stop within %s", stopTime))
	}
}

// sound returns an error if the process has ended without having been told to.
func (s *sidecar) sound() error {
	s.mu.Lock()
	exited, downed := s.exited, s.downed
	s.mu.Unlock()
	select {
	case <-exited:
		if !downed {
			return s.fault(errors.New("it exited of its own accord"))
		}
	default:
	}
	return nil
}

// killedAt returns when a life ended by a kill; zero if it did not.
func (s *sidecar) killedAt(number int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed[number]
}

// complaints counts what the sidecar logged as errors, by message.
func (s *sidecar) complaints() (map[string]int, error) {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", s.name, err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		var said struct{ Level, Msg string }
		switch {
		case json.Unmarshal([]byte(line), &said) == nil:
			if said.Level == "ERROR" {
				n[said.Msg]++
			}
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"), strings.HasPrefix(line, "WARNING: DATA RACE"):
			n[strings.TrimSpace(line)]++
		}
	}
	return n, nil
}
