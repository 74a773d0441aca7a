package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replication is what a server says of its part in it, by the names in INFO.
type replication map[string]string

func askReplication(ctx context.Context, server *redis.Client) (replication, error) {
	info, err := server.Info(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	r := replication{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			r[name] = value
		}
	}
	return r, nil
}

// offset returns how far a server has come in the stream of writes.
func (r replication) offset(name string) (int64, error) {
	return strconv.ParseInt(r[name], 10, 64)
}

// synced returns nil when a server is no replica, or has its master's data and
// follows it.
func synced(ctx context.Context, server *redis.Client) error {
	r, err := askReplication(ctx, server)
	if err == nil && r["role"] == "slave" && r["master_link_status"] != "up" {
		err = errors.New("does not follow its master yet")
	}
	return err
}

// awaitReplicas waits until the replicas among servers have come as far as their
// masters among them are now.
func awaitReplicas(servers []*redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	goal := map[string]int64{} // address of a master → how far
	for _, server := range servers {
		r, err := askReplication(ctx, server)
		if err == nil && r["role"] == "master" {
			goal[server.Options().Addr], err = r.offset("master_repl_offset")
		}
		if err != nil {
			return fmt.Errorf("asking %s how far it is: %w", server.Options().Addr, err)
		}
	}
	return await("the replicas have everything", lookEvery, func(ctx context.Context) error {
		for _, server := range servers {
			r, err := askReplication(ctx, server)
			if err != nil {
				return err
			}
			if r["role"] == "master" {
				continue
			}
			at, err := r.offset("slave_repl_offset")
			if err != nil {
				return err
			}
			if want := goal[net.JoinHostPort(r["master_host"], r["master_port"])]; at < want {
				return fmt.Errorf("%s is at %d of %d", server.Options().Addr, at, want)
			}
		}
		return nil
	})
}
