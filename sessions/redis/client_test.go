package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	for _, tt := range []struct{ url, says string }{
		{"redis://u:" + password + "/x@host", "percent-encoded"},
		{"redis://u:" + password + "%zz@host", "percent-encoded"},
		{"redis+cluster://u:" + password + "/x@h1,h2", "percent-encoded"},
		{"redis+cluster://u:" + password + "@", "not a URL"},
		{"redis+cluster://h1,,h2", "not a URL"},
		{"redis+cluster://:" + password + "@h1:six", "not a URL"},
		{"redis+cluster://h1/1", "one database"},
		{"redis+cluster://h1?tls=on", "tls"},
		{"redis+cluster://h1?read_only=true", "masters only"},
		{"redis+cluster://h1?pasword=" + password, "unexpected option"},
		{"redis+sentinel://:" + password + "@h1,h2", "no master"},
		{"redis+sentinel://h1,h2/m/zero?sentinelPassword=" + password, "database"},
		{"redis+sentinel://h1,h2/m/0?sentinelPasword=" + password, "unexpected option"},
		{"redis+sentinel://h1,h2/m?replica_only=true", "masters only"},
		{"redis+sentinel://h1,h2/m?route_randomly=true", "masters only"},
		{"redis+ring://h1,h2?password=" + password, "scheme"},
	} {
		_, err := redis.Open(t.Context(), redis.Options{URL: tt.url})
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), password) {
			t.Errorf("Open(%s) = %v, want an error with %q and without the password", tt.url, err, tt.says)
		}
		if errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("Open(%s) = %v, want no ErrUnavailable: trying again does not help", tt.url, err)
		}
	}
}

// TestCredentials looks at what clients tell servers of themselves.
func TestCredentials(t *testing.T) {
	t.Parallel()
	enough := func(_ *fake, command []string) string {
		if strings.EqualFold(command[0], "auth") || strings.EqualFold(command[0], "select") {
			return "+OK\r\n"
		}
		return "-ERR enough\r\n"
	}
	master := startFake(t, enough)
	sentinel := startFake(t, func(_ *fake, command []string) string {
		if strings.EqualFold(command[0], "sentinel") && strings.EqualFold(command[1], "get-master-addr-by-name") {
			host, port, _ := net.SplitHostPort(master.addr)
			return array(bulk(host), bulk(port))
		}
		return "+OK\r\n"
	})
	url := "redis+sentinel://user:p%2F%40ss@" + sentinel.addr + ",127.0.0.1:1/my%20master/3?sentinelUsername=guard&sentinelPassword=w%26rd"
	_, err := redis.Open(t.Context(), redis.Options{URL: url, Timeout: time.Second})
	if err == nil {
		t.Error("Open() = nil, want an error")
	}
	sentinel.got(t, "auth guard w&rd", "sentinel get-master-addr-by-name my master")
	master.got(t, "auth user p/@ss", "select 3")

	node := startFake(t, enough)
	if _, err := redis.Open(t.Context(), redis.Options{URL: "redis+cluster://user:p%2F%40ss@" + node.addr, Timeout: time.Second}); err == nil {
		t.Error("Open() = nil, want an error")
	}
	node.got(t, "auth user p/@ss")
}

// TestTLS: with tls=true servers must show a certificate of a known root.
func TestTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = nil
	addr := srv.Listener.Addr().String()
	for _, url := range []string{"redis+cluster://" + addr + "?tls=true", "redis+sentinel://" + addr + "/m?tls=true", "rediss://" + addr} {
		_, err := redis.Open(t.Context(), redis.Options{URL: url, Timeout: time.Second})
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("Open(%s) = %v, want an error of the certificate", url, err)
		}
	}
}

// TestOnce: a cluster's client does not repeat a call whose outcome is not known.
func TestOnce(t *testing.T) {
	t.Parallel()
	node := startFake(t, func(f *fake, command []string) string {
		switch strings.ToLower(command[0]) {
		case "cluster":
			host, port, _ := net.SplitHostPort(f.addr)
			return array(array(":0\r\n", ":16383\r\n", array(bulk(host), ":"+port+"\r\n", bulk("id"))))
		case "info":
			return bulk("redis_version:7.4.0\r\n")
		case "script":
			return "+QUEUED\r\n"
		case "exec":
			return array(slices.Repeat([]string{bulk("digest")}, f.count("script"))...)
		case "fcall":
			return "" // hangs up when it may have carried it out
		default:
			return "+OK\r\n"
		}
	})
	s := openURL(t, "redis+cluster://"+node.addr, redis.Options{})
	if _, err := admit(t, s, call("r", 1)); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Apply() = %v, want ErrUnavailable", err)
	}
	if n := node.count("fcall"); n != 1 {
		t.Errorf("the server was called %d times, want 1", n)
	}
}

// fake is a server that answers as a test has it.
type fake struct {
	addr string

	mu   sync.Mutex // guards seen
	seen []string   // commands and their arguments, the names in lower case
}

// startFake runs a server until t ends. It hangs up where answer returns nothing.
func startFake(t *testing.T, answer func(f *fake, command []string) string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			stop := make(chan struct{})
			serving.Go(func() { defer close(stop); f.serve(c, answer) })
			serving.Go(func() {
				select {
				case <-stop:
				case <-t.Context().Done():
					_ = c.Close() // to end serve
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // fails only if it is closed
		serving.Wait()
	})
	return f
}

func (f *fake) serve(c net.Conn, answer func(f *fake, command []string) string) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.seen = append(f.seen, strings.ToLower(command[0])+" "+strings.Join(command[1:], " "))
		f.mu.Unlock()
		reply := "-ERR unknown command\r\n" // as servers before 6 say to HELLO: clients go on in the protocol of then
		if !strings.EqualFold(command[0], "hello") {
			reply = answer(f, command)
		}
		if reply == "" {
			return
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(mark byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != mark {
			return 0, fmt.Errorf("reading %q: %w", line, errors.Join(err, io.ErrUnexpectedEOF))
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, nil
}

// got fails t unless the server has seen these commands.
func (f *fake) got(t *testing.T, commands ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commands {
		if !slices.Contains(f.seen, c) {
			t.Errorf("the server has seen %q, want %q", f.seen, c)
		}
	}
}

// count returns how often the server has seen a command.
func (f *fake) count(name string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.seen {
		if strings.HasPrefix(c, name+" ") {
			n++
		}
	}
	return n
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func array(items ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(items), strings.Join(items, ""))
}
