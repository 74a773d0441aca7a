package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinels of [StartSentinel] call their master.
const MasterName = "mymaster"

const (
	sentinels = 3
	quorum    = 2
)

// Sentinel is a master with a replica, and sentinels that watch over them: 3
// of them, 2 of which must agree that the master is gone. Its methods may be
// called from any goroutine.
type Sentinel struct {
	servers []*Server // one of them the master
	watch   []*Server
	clients map[*Server]*redis.Client
}

// StartSentinel runs a master, its replica and sentinels until tb ends. Without
// a redis-server tb is skipped, as by [Start].
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	return Redis.StartSentinel(tb)
}

// LaunchSentinel is [StartSentinel] for a caller that has no test; it must call Close.
func LaunchSentinel() (*Sentinel, error) { return Redis.LaunchSentinel() }

// StartSentinel is [StartSentinel] for an engine.
func (e Engine) StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	return started(tb, e, e.LaunchSentinel)
}

// LaunchSentinel is [LaunchSentinel] for an engine.
func (e Engine) LaunchSentinel() (*Sentinel, error) {
	s := &Sentinel{clients: map[*Server]*redis.Client{}}
	if err := s.launch(e); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting sentinels: %w", err)
	}
	return s, nil
}

func (s *Sentinel) launch(e Engine) error {
	master, err := e.Launch("--repl-diskless-sync-delay", "0")
	if err != nil {
		return err
	}
	s.add(&s.servers, master)
	replica, err := e.Launch("--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1 "+port(master))
	if err != nil {
		return err
	}
	s.add(&s.servers, replica)
	if err := await("the replica follows", lookEvery, func(ctx context.Context) error {
		return synced(ctx, s.clients[replica])
	}); err != nil {
		return err
	}
	for range sentinels {
		watcher, err := e.launch(func(at *Server) (setUp, error) { return sentinel(at, master) })
		if err != nil {
			return err
		}
		s.add(&s.watch, watcher)
		if err := hurry(s.clients[watcher]); err != nil {
			return err
		}
	}
	return s.awaitEach("the sentinels know one another and the replica", func(ctx context.Context, watcher *redis.Client) error {
		master, err := watcher.Do(ctx, "sentinel", "master", MasterName).Slice()
		if err != nil {
			return err
		}
		if n := field(master, "num-other-sentinels"); n != fmt.Sprint(sentinels-1) {
			return fmt.Errorf("one knows of %s others", n)
		}
		if n := field(master, "num-slaves"); n != "1" {
			return fmt.Errorf("one knows of %s replicas", n)
		}
		return nil
	})
}

func (s *Sentinel) add(to *[]*Server, server *Server) {
	*to = append(*to, server)
	s.clients[server] = client(server)
}

// sentinel sets a sentinel up. It keeps what it learns in its file.
func sentinel(at, master *Server) (setUp, error) {
	file := filepath.Join(at.dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]s %[3]d\n"+
		"sentinel down-after-milliseconds %[1]s 500\n"+
		"sentinel failover-timeout %[1]s 3000\n", MasterName, port(master), quorum)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return setUp{}, fmt.Errorf("writing a sentinel's configuration: %w", err)
	}
	return setUp{file: file, args: []string{"--sentinel"}}, nil
}

// hurry makes a sentinel look around more often than by default. It promotes no
// replica that it has not heard of for five times ping-period, so that one stays.
func hurry(watcher *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := watcher.Do(ctx, "sentinel", "debug", "info-period", 200, "ask-period", 100, "publish-period", 200).Err(); err != nil {
		return fmt.Errorf("making a sentinel hurry: %w", err)
	}
	return nil
}

func port(s *Server) string {
	_, port, _ := strings.Cut(s.Addr(), ":")
	return port
}

// field finds a value among names and values.
func field(pairs []any, name string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == name {
			return fmt.Sprint(pairs[i+1])
		}
	}
	return ""
}

// awaitEach waits until something holds for every sentinel.
func (s *Sentinel) awaitEach(what string, holds func(ctx context.Context, watcher *redis.Client) error) error {
	return await(what, lookEvery, func(ctx context.Context) error {
		for _, watcher := range s.watch {
			if err := holds(ctx, s.clients[watcher]); err != nil {
				return err
			}
		}
		return nil
	})
}

// URL returns the address as the store option spells it, with all sentinels.
func (s *Sentinel) URL() string {
	addrs := make([]string, len(s.watch))
	for i, watcher := range s.watch {
		addrs[i] = watcher.Addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + MasterName
}

// Master returns the server that the sentinels take for the master.
func (s *Sentinel) Master() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return s.master(ctx)
}

func (s *Sentinel) master(ctx context.Context) (*Server, error) {
	addr, err := masterOf(ctx, s.clients[s.watch[0]])
	if err != nil {
		return nil, fmt.Errorf("asking a sentinel for the master: %w", err)
	}
	for _, server := range s.servers {
		if server.Addr() == addr {
			return server, nil
		}
	}
	return nil, fmt.Errorf("no server has the address %s", addr)
}

func masterOf(ctx context.Context, watcher *redis.Client) (string, error) {
	addr, err := watcher.Do(ctx, "sentinel", "get-master-addr-by-name", MasterName).StringSlice()
	if err == nil && len(addr) != 2 {
		err = errors.New("it answers something else")
	}
	if err != nil {
		return "", err
	}
	return addr[0] + ":" + addr[1], nil
}

// KillMaster ends the master's process at once (SIGKILL), and returns it when it
// is gone. The sentinels find out by themselves: see AwaitFailover.
func (s *Sentinel) KillMaster() (*Server, error) {
	master, err := s.Master()
	if err != nil {
		return nil, err
	}
	master.Stop()
	return master, nil
}

// AwaitFailover waits until all sentinels have another master than lost, and
// that takes itself for one.
func (s *Sentinel) AwaitFailover(lost *Server) error {
	if err := s.awaitEach("the replica has taken over", func(ctx context.Context, watcher *redis.Client) error {
		addr, err := masterOf(ctx, watcher)
		if err == nil && addr == lost.Addr() {
			err = errors.New("a sentinel still counts on the old master")
		}
		return err
	}); err != nil {
		return fmt.Errorf("%w; a sentinel said:\n%s", err, s.watch[0].said())
	}
	return await("the new master knows that it is one", lookEvery, func(ctx context.Context) error {
		master, err := s.master(ctx)
		if err != nil {
			return err
		}
		role, err := s.clients[master].Do(ctx, "role").Slice()
		if err == nil && (len(role) == 0 || role[0] != "master") {
			err = errors.New("it is a replica")
		}
		return err
	})
}

// AwaitReplicas waits until the replica has everything that has been written
// until now, which no fail-over can lose then.
func (s *Sentinel) AwaitReplicas() error {
	var running []*redis.Client
	for _, server := range s.servers {
		if server.Running() {
			running = append(running, s.clients[server])
		}
	}
	return awaitReplicas(running)
}

// Restart runs a master that was killed and replaced again, at its address, and
// waits until it follows the new one and the sentinels would promote it.
func (s *Sentinel) Restart(lost *Server) error {
	if err := lost.Revive(); err != nil {
		return fmt.Errorf("restarting the old master: %w", err)
	}
	return s.awaitEach("the old master is a replica", func(ctx context.Context, watcher *redis.Client) error {
		replicas, err := watcher.Do(ctx, "sentinel", "replicas", MasterName).Slice()
		if err != nil {
			return err
		}
		for _, replica := range replicas {
			pairs, _ := replica.([]any) // what is none has no fields
			if field(pairs, "port") == port(lost) && field(pairs, "flags") == "slave" && field(pairs, "master-link-status") == "ok" {
				return nil
			}
		}
		return errors.New("a sentinel sees it do something else")
	})
}

// Close ends all processes and removes their files.
func (s *Sentinel) Close() {
	var wg sync.WaitGroup
	for server, client := range s.clients {
		_ = client.Close() // a second Close is no fault
		wg.Go(server.Close)
	}
	wg.Wait()
}
