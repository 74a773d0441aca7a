package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

// The worlds: one for each kind of store.
const (
	worldRedis    = "redis"
	worldCluster  = "cluster"
	worldSentinel = "sentinel"
	worldSQLite   = "sqlite"
)

var (
	worldNames  = []string{worldRedis, worldCluster, worldSentinel, worldSQLite}
	shortWorlds = []string{worldRedis, worldCluster, worldSQLite}
)

// store is what a world's sidecars share.
type store struct {
	url      string
	sidecars int
	// keeps says that nothing is forgotten that was acknowledged. A replica that
	// takes over from a master may lack what it acknowledged last.
	keeps   bool
	outages []fault
	stop    func() // kills the server, which begin has on its feet again; nil: there is more than one
	begin   func() error
	close   func()
	// overdue counts what should have been settled before that time and was
	// not; nil: that cannot be asked.
	overdue func(ctx context.Context, before time.Time) (int64, error)
}

// fault is something that breaks and is mended. Neither takes a context: what
// has been broken is mended however soon the load ends, and both bound themselves.
type fault struct {
	name   string
	breaks func() error // returns when it is broken, and what is to take over has
	mend   func() error
}

// dueKey is the sorted set of the Redis store that says when which tree has
// something to be settled, in microseconds since 1970.
const dueKey = "a2a:due"

// openers open the stores, by world.
var openers = map[string]func(dir string, l *ledger) (*store, error){
	worldRedis:    openRedis,
	worldCluster:  openCluster,
	worldSentinel: openSentinel,
	worldSQLite:   openSQLite,
}

// openSQLite names a file. It has one sidecar, whose death is outage enough.
func openSQLite(dir string, _ *ledger) (*store, error) {
	return &store{url: "sqlite:" + filepath.Join(dir, "chaos.db"), sidecars: 1, keeps: true, close: func() {}}, nil
}

// openRedis starts a server that loses nothing it has acknowledged.
func openRedis(string, *ledger) (*store, error) {
	srv, err := redistest.Launch("--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	return &store{
		url: srv.URL(), sidecars: 3, keeps: true, overdue: overdueIn(client), stop: srv.Stop, begin: srv.Revive,
		close: func() { _ = client.Close(); srv.Close() }, // nothing is pending
		outages: []fault{{
			name:   "kill -9 of Redis",
			breaks: func() error { srv.Stop(); return nil },
			mend:   srv.Revive,
		}},
	}, nil
}

func openCluster(_ string, l *ledger) (*store, error) {
	c, err := redistest.LaunchCluster(3, 1)
	if err != nil {
		return nil, err
	}
	addrs := strings.Split(strings.TrimPrefix(c.URL(), "redis+cluster://"), ",")
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	next, master := 0, 0 // of the masters, by some key that each serves
	return &store{
		url: c.URL(), sidecars: 3, overdue: overdueIn(client),
		close: func() { _ = client.Close(); c.Close() }, // nothing is pending
		outages: []fault{{
			name: "kill -9 of a master",
			breaks: func() (err error) {
				next++
				if master, err = c.Master("some key " + strconv.Itoa(next)); err != nil {
					return err
				}
				l.forgetting()
				c.Kill(master)
				return c.AwaitFailover(master)
			},
			mend: func() error {
				if err := c.Restart(master); err != nil {
					return err
				}
				// Before the next fault: a shard with no replica that has its data
				// would be lost, and no store survives that.
				return awaitReplica(c.Node(master).Addr())
			},
		}},
	}, nil
}

func openSentinel(_ string, l *ledger) (*store, error) {
	s, err := redistest.LaunchSentinel()
	if err != nil {
		return nil, err
	}
	addrs := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "redis+sentinel://"), "/"+redistest.MasterName)
	var lost *redistest.Server
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: strings.Split(addrs, ",")})
	return &store{
		url: s.URL(), sidecars: 3, overdue: overdueIn(client),
		close: func() { _ = client.Close(); s.Close() }, // nothing is pending
		outages: []fault{{
			name: "kill -9 of the master",
			breaks: func() (err error) {
				l.forgetting()
				if lost, err = s.KillMaster(); err != nil {
					return err
				}
				return s.AwaitFailover(lost)
			},
			mend: func() error { return s.Restart(lost) },
		}},
	}, nil
}

// quiet drops what the client library would say of servers that it cannot
// reach: that they are killed is no news here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func overdueIn(client redis.UniversalClient) func(context.Context, time.Time) (int64, error) {
	return func(ctx context.Context, before time.Time) (int64, error) {
		return client.ZCount(ctx, dueKey, "-inf", strconv.FormatInt(before.UnixMicro(), 10)).Result()
	}
}

// awaitReplica waits until the server at addr has its master's data.
func awaitReplica(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }() // nothing is pending
	for {
		info, err := client.Info(ctx, "replication").Result()
		lines := strings.Fields(info)
		if err == nil && slices.Contains(lines, "role:slave") && slices.Contains(lines, "master_link_status:up") {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("waiting for %s to follow its master: %w", addr, errors.Join(err, ctx.Err()))
		}
	}
}
