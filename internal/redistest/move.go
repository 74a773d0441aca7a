package redistest

import (
	"context"
	"fmt"
)

// Move gives the slot of key, with all that is in it, to master number to, as
// resharding does. Clients are not told: they find out when they ask the wrong
// one.
func (c *Cluster) Move(key string, to int) error {
	from, err := c.Master(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.move(ctx, key, from, to); err != nil {
		return fmt.Errorf("moving the slot of %s from node %d to node %d: %w", key, from, to, err)
	}
	return nil
}

func (c *Cluster) move(ctx context.Context, key string, from, to int) error {
	source, target := c.clients[from], c.clients[to]
	slot, err := source.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	var ids [2]string
	for i, n := range []int{from, to} {
		if ids[i], err = c.clients[n].ClusterMyID(ctx).Result(); err != nil {
			return err
		}
	}
	if err := target.Do(ctx, "cluster", "setslot", slot, "importing", ids[0]).Err(); err != nil {
		return err
	}
	if err := source.Do(ctx, "cluster", "setslot", slot, "migrating", ids[1]).Err(); err != nil {
		return err
	}
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		migrate := []any{"migrate", "127.0.0.1", c.nodes[to].port, "", 0, startTimeout.Milliseconds(), "keys"}
		for _, k := range keys {
			migrate = append(migrate, k)
		}
		if err := source.Do(ctx, migrate...).Err(); err != nil {
			return err
		}
	}
	for _, n := range []int{to, from} { // in this order there is never nobody who serves it
		if err := c.clients[n].Do(ctx, "cluster", "setslot", slot, "node", ids[1]).Err(); err != nil {
			return err
		}
	}
	return nil
}
