// Package redistest runs real, private Redis servers for tests.
//
// A server costs a few tens of milliseconds, so a top-level test starts its own
// and shares it with its subtests; nothing is flushed and nothing leaks from one
// test to another:
//
//	srv := redistest.Start(t)
//	rdb := srv.Client(t)
//
// The server listens on loopback and on a Unix socket, keeps nothing on disk
// unless its arguments say so, and ends with the test. [Server.Stop] and
// [Server.Restart] make an outage at an address that stays the same.
package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startTimeout = 20 * time.Second // far above what a loaded machine needs
	pollEvery    = 2 * time.Millisecond

	// maxSocketPath is under the shortest sun_path of the systems that Go runs on (104 bytes).
	maxSocketPath = 100

	missing = "redis-server is not installed: run `make redis` (or `apt-get install redis-server`, " +
		"`brew install redis`), or set REDIS_SERVER to its path"
)

// errNoServer tells that this machine has no redis-server.
var errNoServer = errors.New(missing)

// Server is one redis-server process. Its methods may be called from any goroutine.
type Server struct {
	bin  string
	args []string
	dir  string
	port int

	mu     sync.Mutex // guards cmd and exited
	cmd    *exec.Cmd  // nil while stopped
	exited chan struct{}
}

// Start runs a server until tb ends. The args are redis-server's own
// ("--appendonly", "yes") and win over the defaults.
//
// Without a redis-server the test is skipped, or fails if REQUIRE_REDIS is 1.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := Launch(args...)
	if errors.Is(err, errNoServer) && os.Getenv("REQUIRE_REDIS") != "1" {
		tb.Skip(missing)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Launch is [Start] for a caller that has no test; it must call Close.
func Launch(args ...string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := shortTempDir()
	if err != nil {
		return nil, fmt.Errorf("making a directory for redis-server: %w", err)
	}
	s := &Server{bin: bin, args: args, dir: dir}
	// Somebody may take the port between the look and the start: then try another.
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	s.Close()
	return nil, err
}

// Addr returns the server's host:port, the same across restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the address as go-redis and the store option spell it.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Socket returns the path of the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// Client returns a client that is closed when tb ends. It never retries, so a
// test sees an outage at once.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1})
	tb.Cleanup(func() { _ = c.Close() }) // a second Close by the test is no fault
	return c
}

// Stop kills the server at once, as a crash would, and waits until it is gone.
// Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart stops the server and starts it again at the same address. It comes
// back empty unless the arguments of Start asked for persistence.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

// Close stops the server and removes its files.
func (s *Server) Close() {
	s.Stop()
	_ = os.RemoveAll(s.dir) // a temporary directory; the system clears what is left
}

// kill needs s.mu.
func (s *Server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only if the process is gone, which is the aim
	<-s.exited
	s.cmd = nil
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("starting redis-server: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle

	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--unixsocket", s.Socket(),
		"--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
	}
	cmd := exec.Command(s.bin, append(args, s.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting redis-server: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited

	if err := s.awaitPong(exited); err != nil {
		s.kill()
		said, _ := os.ReadFile(log.Name()) // without it the error stands alone
		return fmt.Errorf("starting redis-server on %s: %w; it said:\n%s", s.Addr(), err, said)
	}
	return nil
}

// awaitPong waits until the server answers, has exited, or has had its time. It
// asks on the socket: on the port a stranger might answer.
func (s *Server) awaitPong(exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ping(s.Socket())
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", startTimeout, err)
		case <-tick.C:
		}
	}
}

func ping(socket string) error {
	const patience = 200 * time.Millisecond
	c, err := net.DialTimeout("unix", socket, patience)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing is pending
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	// -NOAUTH answers too: the test gave the server a password.
	if !strings.HasPrefix(line, "+PONG") && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("PING answered %q", line)
	}
	return nil
}

func find() (string, error) {
	if bin := os.Getenv("REDIS_SERVER"); bin != "" {
		return bin, nil
	}
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoServer, err)
	}
	return bin, nil
}

// shortTempDir keeps the socket's path within the limit: tb.TempDir holds the
// test's name, and TMPDIR may be deep.
func shortTempDir() (string, error) {
	dir, err := os.MkdirTemp("", "r")
	if err != nil || len(filepath.Join(dir, "s")) <= maxSocketPath {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "r")
}

// freePort picks below the range that systems hand out by themselves, so that
// nobody's client takes the port between Stop and Restart.
func freePort() (int, error) {
	var err error
	for range 50 {
		port := 20000 + rand.IntN(12000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("finding a free port: %w", err)
}
