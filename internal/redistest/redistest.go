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
//
// [StartCluster] and [StartSentinel] run several as a cluster, or as a master
// with a replica and sentinels; they cost some seconds, and lose a master on
// demand. All of it runs [Valkey] too.
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
	startTimeout = 20 * time.Second      // far above what a loaded machine needs
	pollEvery    = 2 * time.Millisecond  // for a server's first answer
	lookEvery    = 20 * time.Millisecond // for several servers to agree

	// maxSocketPath is under the shortest sun_path of the systems that Go runs on (104 bytes).
	maxSocketPath = 100
)

// Server is one server process. Its methods may be called from any goroutine.
type Server struct {
	engine Engine
	bin    string
	args   []string
	dir    string
	port   int

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
	return Redis.Start(tb, args...)
}

// Launch is [Start] for a caller that has no test; it must call Close.
func Launch(args ...string) (*Server, error) { return Redis.Launch(args...) }

// Start is [Start] for an engine.
func (e Engine) Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return started(tb, e, func() (*Server, error) { return e.Launch(args...) })
}

// Launch is [Launch] for an engine.
func (e Engine) Launch(args ...string) (*Server, error) {
	return e.launch(func(*Server) (setUp, error) { return setUp{args: args}, nil })
}

// setUp is what makes a server more than a plain one.
type setUp struct {
	file string   // its configuration file; empty: none
	args []string // win over the file and the defaults
}

// launch runs a server. The setUp is made for the directory and port of each
// attempt.
func (e Engine) launch(prepare func(*Server) (setUp, error)) (*Server, error) {
	bin, err := e.find()
	if err != nil {
		return nil, err
	}
	dir, err := shortTempDir()
	if err != nil {
		return nil, fmt.Errorf("making a directory for %s: %w", e, err)
	}
	s := &Server{engine: e, bin: bin, dir: dir}
	// Somebody may take the port between the look and the start: then try another.
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		var more setUp
		if more, err = prepare(s); err != nil {
			break
		}
		s.args = nil
		if more.file != "" {
			s.args = append(s.args, more.file)
		}
		s.args = append(s.args,
			"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--unixsocket", s.Socket(),
			"--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
		)
		s.args = append(s.args, more.args...)
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
	if err := s.Revive(); err != nil {
		tb.Fatal(err)
	}
}

// Revive is [Server.Restart] for a caller that has no test.
func (s *Server) Revive() error {
	s.Stop()
	return s.start()
}

// Running reports whether the server's process has been started and not been
// stopped since.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
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
	log, err := os.Create(s.log())
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.engine, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle

	cmd := exec.Command(s.bin, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.engine, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited

	if err := s.awaitPong(exited); err != nil {
		s.kill()
		return fmt.Errorf("starting %s on %s: %w; it said:\n%s", s.engine, s.Addr(), err, s.said())
	}
	return nil
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// said returns what the server has said since its last start.
func (s *Server) said() string {
	text, _ := os.ReadFile(s.log()) // without it the error that it explains stands alone
	return string(text)
}

// awaitPong waits until the server answers or has exited. It asks on the
// socket: on the port a stranger might answer.
func (s *Server) awaitPong(exited <-chan struct{}) error {
	return await("it answers", pollEvery, func(context.Context) error {
		err := ping(s.Socket())
		select {
		case <-exited:
			return final{errors.New("it exited")}
		default:
			return err
		}
	})
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
