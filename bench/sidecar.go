package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

const (
	sidecarPackage = "github.com/a2a-sidecar/a2a-sidecar/cmd/sidecar"
	agentName      = "worker"
)

// profiling is one more file for the sidecar's main package, in a build for
// profiles only: it serves net/http/pprof on the Unix socket that
// BENCH_PPROF names. The sidecar itself offers no such door.
//
//go:embed testdata/profiling.go.txt
var profiling []byte

// profilingEnv names the socket to a sidecar built with the file profiling.
const profilingEnv = "BENCH_PPROF"

// buildSidecar builds the sidecar into dir, as `go run` would: with settings of
// its own, all of SQLite would be compiled once more for the benchmark.
func buildSidecar(ctx context.Context, dir string, profiled bool) (string, error) {
	bin := filepath.Join(dir, "sidecar")
	args := []string{"build", "-o", bin}
	if profiled {
		overlay, err := addProfiling(ctx, dir)
		if err != nil {
			return "", fmt.Errorf("building the sidecar for profiles: %w", err)
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, sidecarPackage)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the sidecar: %w:\n%s", err, said)
	}
	return bin, nil
}

// addProfiling writes an overlay that adds the file profiling to the sidecar,
// so that no source is touched.
func addProfiling(ctx context.Context, dir string) (overlay string, err error) {
	home, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", sidecarPackage).Output()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "profiling.go")
	if err := os.WriteFile(file, profiling, 0o600); err != nil {
		return "", err
	}
	added := filepath.Join(strings.TrimSpace(string(home)), "bench_profiling.go")
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{added: file}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// configFor has everything on, and no cap in reach. It is JSON, which is YAML.
// A place that a caller queues for would measure the cap, so caps are checked
// against a million.
func configFor(agentURL, store string) ([]byte, error) {
	const never = 1_000_000
	type object map[string]any
	return json.Marshal(object{
		"listen": object{"outbound": "127.0.0.1:0", "admin": "127.0.0.1:0"},
		"agents": []object{{
			"name": agentName, "url": agentURL, "isolateSessions": true, "lineage": "full",
			"limits": object{"maxConcurrent": never},
		}},
		"limits": object{"maxChildren": never, "maxFanOut": never, "maxSessions": never},
		"record": object{"content": "text"},
		"store":  store,
	})
}

// sidecar is one that runs.
type sidecar struct {
	*child
	outbound, admin string // addresses
	profiles        string // socket of its profiles, if it was built for them
}

func startSidecar(ctx context.Context, dir, name, bin, agentURL, store string) (*sidecar, error) {
	b, err := configFor(agentURL, store)
	if err != nil {
		return nil, err
	}
	file, addrs := filepath.Join(dir, name+".yml"), filepath.Join(dir, name+".addr")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return nil, fmt.Errorf("starting the sidecar: %w", err)
	}
	s := &sidecar{profiles: filepath.Join(dir, name+".sock")}
	cmd := exec.Command(bin, "serve", "--config", file, "--addr-file", addrs)
	cmd.Env = []string{profilingEnv + "=" + s.profiles}
	if s.child, err = start(dir, name, cmd, nil); err != nil {
		return nil, err
	}
	var bound struct{ Outbound, Admin string }
	if err := s.awaitFile(ctx, addrs, &bound); err != nil {
		_ = s.stop() // the fault of the start is the one to tell
		return nil, err
	}
	s.outbound, s.admin = hostPort(bound.Outbound), hostPort(bound.Admin)
	return s, nil
}

// hostPort reads an address that may be a URL.
func hostPort(addr string) string {
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		return u.Host
	}
	return addr
}

// gaveUp says what part of the record the sidecar did not keep, by its own
// counters; empty if it kept everything.
func (s *sidecar) gaveUp(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking %s for its metrics: %w", s.name, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	var lost []string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := sample(lines.Text())
		if ok && value > 0 && (strings.HasPrefix(name, "a2a_sidecar_unrecorded") || strings.HasPrefix(name, "a2a_sidecar_record_dropped")) {
			lost = append(lost, fmt.Sprintf("%s = %.0f", name, value))
		}
	}
	return strings.Join(lost, ", "), lines.Err()
}

// sample reads a line of the Prometheus text format: name{labels} value.
func sample(line string) (name string, value float64, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || line[0] == '#' {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[i+1:], 64)
	name, _, _ = strings.Cut(line[:i], "{")
	return name, value, err == nil
}

// profile fetches a CPU profile of the coming time.
func (s *sidecar) profile(ctx context.Context, d time.Duration, file string) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.profiles)
	}}}
	defer client.CloseIdleConnections()
	seconds := strconv.Itoa(max(1, int(d.Seconds())))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sidecar/debug/pprof/profile?seconds="+seconds, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("profiling %s: %w", s.name, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profiling %s: %s", s.name, resp.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(resp.Body)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// redisMissing says how to get a Redis server; empty if there is one.
func redisMissing() string {
	if os.Getenv("REDIS_SERVER") != "" {
		return ""
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		return ""
	}
	return "redis-server is not installed: run `make redis`, or set REDIS_SERVER to its path"
}

// redisServer is a private one, with what it says of itself.
type redisServer struct {
	*redistest.Server
	pid     int
	version string
}

func startRedis() (*redisServer, error) {
	srv, err := redistest.Launch()
	if err != nil {
		return nil, err
	}
	r := &redisServer{Server: srv}
	if err := r.ask(); err != nil {
		srv.Close()
		return nil, fmt.Errorf("asking redis-server about itself: %w", err)
	}
	return r, nil
}

// ask reads the version and the process id, in a dozen lines of its protocol.
func (r *redisServer) ask() error {
	c, err := net.DialTimeout("tcp", r.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing is pending
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("INFO server\r\n")); err != nil {
		return err
	}
	lines := bufio.NewScanner(c)
	for r.pid == 0 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "redis_version":
			r.version = value
		case "process_id":
			if r.pid, err = strconv.Atoi(value); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}
