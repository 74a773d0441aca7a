package redistest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

func TestServersAreSeparate(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	ctx := t.Context()
	if err := one.Client(t).Set(ctx, "k", "one", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := two.Client(t).Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Errorf("Exists(k) on the other server = %d, %v, want 0, nil", n, err)
	}
	opts, err := redis.ParseURL(one.URL())
	if err != nil || opts.Addr != one.Addr() {
		t.Errorf("ParseURL(%q).Addr = %q, %v, want %q, nil", one.URL(), opts.Addr, err, one.Addr())
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want int64 // keys left after the restart
	}{
		{"forgets", nil, 0},
		{"keeps with persistence", []string{"--appendonly", "yes", "--appendfsync", "always"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			srv := redistest.Start(t, tt.args...)
			c := srv.Client(t)
			if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}

			srv.Stop()
			srv.Stop()
			if conn, err := net.Dial("tcp", srv.Addr()); err == nil {
				_ = conn.Close() // the error that matters is reported below
				t.Fatalf("%s answers after Stop", srv.Addr())
			}
			if err := c.Ping(ctx).Err(); err == nil {
				t.Error("Ping() during the outage = nil, want an error")
			}

			srv.Restart(t)
			if n, err := c.DBSize(ctx).Result(); err != nil || n != tt.want {
				t.Errorf("DBSize() after Restart = %d, %v, want %d, nil", n, err, tt.want)
			}
		})
	}
}

// A deep TMPDIR must not break the socket.
func TestDeepTempDir(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", deep)
	srv := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: srv.Socket()})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Ping() over %s = %v, want nil", srv.Socket(), err)
	}
}

func TestBadArgumentsAreTold(t *testing.T) {
	t.Parallel()
	redistest.Start(t) // skips where there is no redis-server
	_, err := redistest.Launch("--no-such-directive", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("Launch(--no-such-directive) = %v, want redis-server's own words", err)
	}
}

func TestCloseRemovesFiles(t *testing.T) {
	t.Parallel()
	redistest.Start(t)
	srv, err := redistest.Launch()
	if err != nil {
		t.Fatal(err)
	}
	srv.Close()
	if _, err := os.Stat(filepath.Dir(srv.Socket())); !os.IsNotExist(err) {
		t.Errorf("Stat(directory) after Close = %v, want not exist", err)
	}
}

// fakeTB records how Start ends without ending this test.
type fakeTB struct {
	testing.TB
	skipped, failed string
}

func (f *fakeTB) Helper()          {}
func (f *fakeTB) Skip(args ...any) { f.skipped = args[0].(string); panic(f) }
func (f *fakeTB) Fatal(args ...any) {
	f.failed = args[0].(error).Error()
	panic(f)
}

func TestNoServer(t *testing.T) {
	for _, require := range []string{"", "1"} {
		t.Run("REQUIRE_REDIS="+require, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("REDIS_SERVER", "")
			t.Setenv("REQUIRE_REDIS", require)
			tb := &fakeTB{}
			func() {
				defer func() { _ = recover() }()
				redistest.Start(tb)
			}()
			said := tb.skipped
			if require == "1" {
				said = tb.failed
			}
			if !strings.Contains(said, "make redis") {
				t.Errorf("Start skipped with %q, failed with %q: want the way to install", tb.skipped, tb.failed)
			}
		})
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		srv := redistest.Start(b)
		if err := srv.Client(b).Ping(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		srv.Stop()
	}
}
