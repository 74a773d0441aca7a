// Package redis is the shared store: the record of sessions in a Redis server
// (7 or later, or Valkey), for any number of sidecars at once.
//
//	Apply ─▶ take a place at a capped agent   (the agent's slot)
//	      ─▶ admit.lua / progress.lua ──────▶ the tree's slot: one script call an op,
//	      ─▶ ids, list of trees, places        all ops of a batch in one flight
//	         (any slot, first wins, safe to repeat)
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
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
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

// Options says where the record is and how it is kept.
type Options struct {
	URL     string           // redis://, rediss:// or unix://, as go-redis spells them
	Prefix  string           // of every key; without braces. Empty: DefaultPrefix
	Retain  time.Duration    // how long a tree is kept after its last change. 0: DefaultRetain
	Timeout time.Duration    // of one Apply, and of every other call. 0: DefaultTimeout
	Now     func() time.Time // for tests: the clock. Nil: the server's, as it must be where sidecars share a store
	Logger  *slog.Logger     // nil: nothing is logged
}

// Store implements [sessions.Store]. Its methods may be called concurrently.
type Store struct {
	client  goredis.UniversalClient
	keys    keyring
	retain  time.Duration
	timeout time.Duration
	now     func() time.Time // nil: the server's clock
	log     *slog.Logger

	bound     *remembered // bindings seen written: not written with every call
	unwritten *remembered // bindings that an outage may have kept from being written
	capped    *remembered // agents seen with a cap

	swept atomic.Int64 // how far down the list of trees the last sweep came
}

var _ sessions.Store = (*Store)(nil)

// Open connects to a server and loads the scripts. The error wraps
// [sessions.ErrUnavailable] when the server does not answer.
func Open(ctx context.Context, opts Options) (*Store, error) {
	server, err := goredis.ParseURL(opts.URL)
	if err != nil {
		// The URL may hold a password, so only what is wrong with it is told.
		return nil, fmt.Errorf("reading the store's URL: %w", unquoted(err))
	}
	if strings.ContainsAny(opts.Prefix, "{}") {
		return nil, fmt.Errorf("key prefix %q: braces would move the keys of a tree to different slots", opts.Prefix)
	}
	if opts.Retain < 0 || opts.Timeout < 0 {
		return nil, errors.New("retain and timeout must not be negative")
	}
	s := &Store{
		keys:    keyring{prefix: or(opts.Prefix, DefaultPrefix)},
		retain:  max(or(opts.Retain, DefaultRetain), time.Millisecond),
		timeout: or(opts.Timeout, DefaultTimeout),
		now:     opts.Now,
		log:     opts.Logger,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.bound, err = newRemembered(); err != nil {
		return nil, err
	}
	if s.unwritten, err = newRemembered(); err != nil {
		return nil, err
	}
	if s.capped, err = newRemembered(); err != nil {
		return nil, err
	}
	server.MaxRetries = -1 // an admission must not be carried out twice behind our back
	server.DialerRetries = 1
	server.DialTimeout, server.ReadTimeout, server.WriteTimeout = s.timeout, s.timeout, s.timeout
	server.ContextTimeoutEnabled = true
	server.Protocol = 2 // RESP3 looks for pushed messages before each reply, and nothing is pushed here
	server.DisableIdentity = true
	server.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	s.client = goredis.NewClient(server)

	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

// start checks the server's version and loads the scripts.
func (s *Store) start(ctx context.Context) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	info, err := s.client.Info(ctx, "server").Result()
	if err != nil {
		return fault("asking the server for its version", err)
	}
	version := field(info, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < minVersion {
		return fmt.Errorf("redis %s is too old: version %d or later is needed", or(version, "of unknown version"), minVersion)
	}
	return s.loadScripts(ctx)
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

// Ping returns nil when the server takes writes.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := s.client.Set(ctx, s.keys.ping(), 1, time.Minute).Err(); err != nil {
		return fault("writing to the store", err)
	}
	return nil
}

// Close closes the connections. The record stays.
func (s *Store) Close() error {
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

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
