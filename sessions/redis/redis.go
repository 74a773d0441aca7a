// Package redis is the shared store: the record of sessions in a Redis server
// (7 or later, or Valkey), for any number of sidecars at once.
//
//	Apply  ─▶ take a place at a capped agent    (the agent's slot)
//	       ─▶ admit, progress, change ────────▶ the tree's slot: one script call an op,
//	       ─▶ ids, lists of trees, places        all ops of a batch in one flight
//	          (any slot, first wins, safe to repeat)
//	Settle ─▶ the list of what is due ─▶ each tree that was claimed there
//	Watch  ◀─ what the scripts of any sidecar publish
//
// Each tree is one slot of a Redis Cluster, and each change of it one script,
// so a tree never shows half a change. What other slots hold (which tree an id
// belongs to, the list of trees, the open runs of a capped agent) is written
// right before or after; every such write may be repeated, and what a crash
// leaves behind lapses or is written again with the tree's next upkeep.
//
// It knows the rules of package sessions and Redis, and nothing of HTTP or
// A2A. Times are the server's. Expiry of keys is garbage collection and never
// means anything: leases and deadlines are looked at by the scripts. The
// server must not evict keys that have a TTL (maxmemory-policy noeviction).
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Defaults of [Options].
const (
	DefaultPrefix  = "a2a:"
	DefaultRetain  = 168 * time.Hour
	DefaultTimeout = 2 * time.Second
)

// minVersion is the oldest major version of Redis whose scripts can be kept
// from touching other slots.
const minVersion = 7

// Options says where the record is and how it is kept. The URL is one of
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	rediss://…    the same over TLS
//	unix://PATH
//	redis+cluster://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]…
//	redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]…/MASTER[/DB]
//
// with go-redis's own options in the query, but for those of time limits,
// retries and reads at replicas. The last two also take tls=true and
// tlsServerName=NAME; sentinels take sentinelUsername and sentinelPassword.
type Options struct {
	URL     string           // of a server, a cluster or sentinels: see above
	Prefix  string           // of every key; without braces. Empty: DefaultPrefix
	Retain  time.Duration    // how long a tree is kept after its last change. 0: DefaultRetain
	Grace   time.Duration    // how long the open work of a session that is to end may go on. 0: lineage.DefaultGrace
	Timeout time.Duration    // of one Apply, and of every other call. 0: DefaultTimeout
	Now     func() time.Time // for tests: the clock. Nil: the server's, as it must be where sidecars share a store
	Logger  *slog.Logger     // nil: nothing is logged
}

// Store implements [sessions.Store]. Its methods may be called concurrently.
type Store struct {
	client  goredis.UniversalClient
	id      string // of this store among those that share the record
	keys    keyring
	retain  time.Duration
	grace   time.Duration
	timeout time.Duration
	now     func() time.Time // nil: the server's clock
	log     *slog.Logger

	bound     *remembered // bindings seen written: not written with every call
	unwritten *remembered // bindings that an outage may have kept from being written
	capped    *remembered // agents seen with a cap
	listed    *lately     // trees on the list of what is due

	watchers watchers
	watching sync.WaitGroup // goroutines of Watch
	closed   chan struct{}
	closing  sync.Once

	swept atomic.Int64 // how far down the list of trees the last sweep came
}

var _ sessions.Store = (*Store)(nil)

// Open connects to a server and loads the scripts. The error wraps
// [sessions.ErrUnavailable] when the server does not answer.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if strings.ContainsAny(opts.Prefix, "{}") {
		return nil, fmt.Errorf("key prefix %q: braces would move the keys of a tree to different slots", opts.Prefix)
	}
	if opts.Retain < 0 || opts.Grace < 0 || opts.Timeout < 0 {
		return nil, errors.New("retain, grace and timeout must not be negative")
	}
	s := &Store{
		id:      rand.Text(),
		keys:    keyring{prefix: or(opts.Prefix, DefaultPrefix)},
		retain:  max(or(opts.Retain, DefaultRetain), time.Millisecond),
		grace:   or(opts.Grace, lineage.DefaultGrace),
		timeout: or(opts.Timeout, DefaultTimeout),
		now:     opts.Now,
		log:     opts.Logger,
		closed:  make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.bound, err = newRemembered(); err != nil {
		return nil, err
	}
	if s.unwritten, err = newRemembered(); err != nil {
		return nil, err
	}
	if s.capped, err = newRemembered(); err != nil {
		return nil, err
	}
	if s.listed, err = newLately(); err != nil {
		return nil, err
	}
	if s.client, err = newClient(opts.URL, s.timeout); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start checks the version of every master and loads the scripts.
func (s *Store) start(ctx context.Context) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := s.masters(ctx, checkVersion); err != nil {
		return err
	}
	return s.loadScripts(ctx)
}

// checkVersion returns an error if a server is too old.
func checkVersion(ctx context.Context, master goredis.Cmdable) error {
	info, err := master.Info(ctx, "server").Result()
	if err != nil {
		return fault("asking the server for its version", err)
	}
	version := field(info, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < minVersion {
		return fmt.Errorf("redis %s is too old: version %d or later is needed", or(version, "of unknown version"), minVersion)
	}
	return nil
}

// field finds a value in the answer to INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Ping returns nil when the server takes writes, in a cluster: when one master
// does, and all of them answer. One that is gone is told of at once, also where
// the cluster lets the others serve without it.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := s.client.Set(ctx, s.keys.ping(), 1, time.Minute).Err(); err != nil {
		return fault("writing to the store", err)
	}
	return s.masters(ctx, func(ctx context.Context, master goredis.Cmdable) error {
		return fault("asking a master whether it is there", master.Ping(ctx).Err())
	})
}

// Close closes the connections. The record stays.
func (s *Store) Close() error {
	s.closing.Do(func() { close(s.closed) })
	s.watching.Wait()
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing the connections to the store: %w", err)
	}
	return nil
}

// Secret returns the key that all sidecars of this store share. It is the one
// key without a TTL: a new one would part conversations from their contexts.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	fresh := make([]byte, contextid.KeySize)
	if _, err := rand.Read(fresh); err != nil {
		return nil, fmt.Errorf("making a secret: %w", err)
	}
	pipe := s.client.Pipeline()
	made := pipe.SetNX(ctx, s.keys.secret(), fresh, 0)
	kept := pipe.Get(ctx, s.keys.secret())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fault("keeping the secret", errors.Join(made.Err(), kept.Err()))
	}
	return kept.Bytes()
}

// limit bounds one call.
func (s *Store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// clock is the scripts' first argument: the time in microseconds, or nothing
// for the server's own.
func (s *Store) clock() string {
	if s.now == nil {
		return ""
	}
	return micros(s.now())
}

// treeArgs are the ARGV with which every script over a tree begins (tree.lua).
func (s *Store) treeArgs(root string) []any {
	return []any{s.clock(), millis(s.retain), s.grace.Microseconds(), s.id, s.keys.notices(), root}
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
