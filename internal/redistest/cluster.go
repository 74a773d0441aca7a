package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// nodeTimeout is when nodes of a cluster begin to doubt one that is silent.
// With the votes of the others and the replica's own delay a lost master is
// replaced in about three times that.
const nodeTimeout = "1000" // milliseconds

// slots is how many there are in any cluster.
const slots = 16384

// Cluster is a Redis Cluster of server processes. Its methods may be called
// from any goroutine. Nodes have numbers: first the masters that it was made
// with, then their replicas, all of the first master before those of the next.
type Cluster struct {
	masters int
	nodes   []*Server
	clients []*redis.Client // of the nodes
}

// StartCluster runs a cluster of that many masters, with so many replicas each,
// until tb ends. Without a redis-server tb is skipped, as by [Start].
func StartCluster(tb testing.TB, masters, replicas int) *Cluster {
	tb.Helper()
	return Redis.StartCluster(tb, masters, replicas)
}

// LaunchCluster is [StartCluster] for a caller that has no test; it must call Close.
func LaunchCluster(masters, replicas int) (*Cluster, error) {
	return Redis.LaunchCluster(masters, replicas)
}

// StartCluster is [StartCluster] for an engine.
func (e Engine) StartCluster(tb testing.TB, masters, replicas int) *Cluster {
	tb.Helper()
	return started(tb, e, func() (*Cluster, error) { return e.LaunchCluster(masters, replicas) })
}

// LaunchCluster is [LaunchCluster] for an engine.
func (e Engine) LaunchCluster(masters, replicas int) (*Cluster, error) {
	if _, err := e.find(); err != nil {
		return nil, err // once, and not of every node
	}
	c := &Cluster{masters: masters}
	all := masters * (1 + replicas)
	launched := make([]*Server, all)
	errs := make([]error, all)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { launched[i], errs[i] = e.launch(clusterNode) })
	}
	wg.Wait()
	for _, s := range launched {
		if s != nil {
			c.nodes = append(c.nodes, s)
			c.clients = append(c.clients, client(s))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		err = c.form(replicas)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	return c, nil
}

// clusterNode sets a node up.
func clusterNode(*Server) (setUp, error) {
	bus, err := freePort() // by default it is so far above the other that it may be anybody's
	if err != nil {
		return setUp{}, err
	}
	return setUp{args: []string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", nodeTimeout,
		"--cluster-replica-validity-factor", "0", // a replica stands for election however long it was cut off
		"--repl-diskless-sync-delay", "0",
	}}, nil
}

// client asks s without ever repeating itself.
func client(s *Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1, Protocol: 2})
}

// form makes a cluster of the nodes, and waits until it is one.
func (c *Cluster) form(replicas int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ids := make([]string, len(c.nodes))
	for i, node := range c.clients {
		var err error
		if ids[i], err = node.ClusterMyID(ctx).Result(); err != nil {
			return fmt.Errorf("asking node %d who it is: %w", i, err)
		}
		// Each its own epoch, or they would have to settle who is who.
		if err := node.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("numbering node %d: %w", i, err)
		}
		if i < c.masters {
			from, to := i*slots/c.masters, (i+1)*slots/c.masters-1
			if err := node.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
				return fmt.Errorf("giving slots to node %d: %w", i, err)
			}
		}
	}
	if err := c.introduce(ctx); err != nil {
		return err
	}
	if err := c.awaitEach("all nodes know one another", func(ctx context.Context, i int) error {
		return c.says(ctx, i, "cluster_known_nodes", strconv.Itoa(len(c.nodes)))
	}); err != nil {
		return err
	}
	for i := c.masters; i < len(c.nodes); i++ {
		master := (i - c.masters) / replicas
		if err := c.clients[i].ClusterReplicate(ctx, ids[master]).Err(); err != nil {
			return fmt.Errorf("making node %d a replica: %w", i, err)
		}
	}
	return c.awaitEach("the cluster serves, and every node has the same picture of it", func(ctx context.Context, i int) error {
		if err := c.says(ctx, i, "cluster_state", "ok"); err != nil {
			return err
		}
		if err := synced(ctx, c.clients[i]); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		view, err := c.view(ctx, i)
		if err != nil {
			return err
		}
		for _, is := range view {
			if j := slices.Index(ids, is.id); is.master != (j < c.masters) || !is.linked {
				return fmt.Errorf("node %d sees node %d as %+v", i, j, is)
			}
		}
		return nil
	})
}

// introduce has all nodes meet all others: word of mouth may take seconds.
func (c *Cluster) introduce(ctx context.Context) error {
	for i, server := range c.nodes {
		// The bus has a port of its own, which go-redis's ClusterMeet cannot tell.
		bus, err := c.clients[i].ConfigGet(ctx, "cluster-port").Result()
		if err != nil {
			return fmt.Errorf("asking for the port of node %d's bus: %w", i, err)
		}
		for j, other := range c.clients[i+1:] {
			if err := other.Do(ctx, "cluster", "meet", "127.0.0.1", server.port, bus["cluster-port"]).Err(); err != nil {
				return fmt.Errorf("introducing node %d to node %d: %w", i+1+j, i, err)
			}
		}
	}
	return nil
}

// says returns nil when CLUSTER INFO of node i has the field with that value.
func (c *Cluster) says(ctx context.Context, i int, field, value string) error {
	info, err := c.clients[i].ClusterInfo(ctx).Result()
	if err == nil && !strings.Contains(info, field+":"+value+"\r\n") {
		err = fmt.Errorf("%s is not %s", field, value)
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	return nil
}

// seen is how one node sees another.
type seen struct {
	id, addr       string
	master, linked bool
	slots          []string // FIRST-LAST or ONE
}

// serves reports whether the node serves slot.
func (s *seen) serves(slot int64) bool {
	for _, r := range s.slots {
		first, last, _ := strings.Cut(r, "-")
		from, err1 := strconv.ParseInt(first, 10, 64)
		to, err2 := strconv.ParseInt(cmp.Or(last, first), 10, 64)
		if err1 == nil && err2 == nil && from <= slot && slot <= to { // others are on the move, as [1->-id]
			return true
		}
	}
	return false
}

// view returns how node i sees all nodes.
func (c *Cluster) view(ctx context.Context, i int) ([]seen, error) {
	text, err := c.clients[i].ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", i, err)
	}
	var view []seen
	for line := range strings.Lines(text) {
		// id address flags master ping pong epoch link-state slots…
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, final{fmt.Errorf("node %d describes a node as %q", i, line)}
		}
		addr, _, _ := strings.Cut(f[1], "@")
		view = append(view, seen{
			id: f[0], addr: addr, master: strings.Contains(f[2], "master"), linked: f[7] == "connected", slots: f[8:],
		})
	}
	return view, nil
}

// awaitEach waits until something holds for every node that runs.
func (c *Cluster) awaitEach(what string, holds func(ctx context.Context, i int) error) error {
	return await(what, lookEvery, func(ctx context.Context) error {
		for i, node := range c.nodes {
			if !node.Running() {
				continue
			}
			if err := holds(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// Size returns how many nodes there are, masters and replicas.
func (c *Cluster) Size() int { return len(c.nodes) }

// Node returns a node, to ask it itself; see Kill and Restart for its process.
func (c *Cluster) Node(i int) *Server { return c.nodes[i] }

// URL returns the address as the store option spells it, with all nodes.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addrs[i] = node.Addr()
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Master returns the node that serves key, as the nodes that run see it.
func (c *Cluster) Master(key string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for i, node := range c.nodes {
		if !node.Running() {
			continue
		}
		slot, err := c.clients[i].ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return 0, fmt.Errorf("asking node %d for the slot of %s: %w", i, key, err)
		}
		view, err := c.view(ctx, i)
		if err != nil {
			return 0, err
		}
		for _, is := range view {
			if is.serves(slot) {
				return c.number(is.addr)
			}
		}
	}
	return 0, fmt.Errorf("no node says who serves %s", key)
}

// number returns which node has an address.
func (c *Cluster) number(addr string) (int, error) {
	for i, node := range c.nodes {
		if node.Addr() == addr {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no node has the address %s", addr)
}

// Kill ends a node's process at once (SIGKILL), and returns when it is gone. The
// others find out by themselves: see AwaitFailover.
func (c *Cluster) Kill(i int) { c.nodes[i].Stop() }

// Restart runs a node that was killed again, at its address. It comes back
// without its data, as a replica if it was replaced. Restart waits until all
// nodes that run say that the cluster serves, and all replicas are up to date.
func (c *Cluster) Restart(i int) error {
	if err := c.nodes[i].Revive(); err != nil {
		return fmt.Errorf("restarting node %d: %w", i, err)
	}
	return c.awaitEach("the cluster serves again", func(ctx context.Context, i int) error {
		// In this order: a node that was replaced takes itself for a master until
		// it serves again, and would be found up to date as such.
		if err := c.says(ctx, i, "cluster_state", "ok"); err != nil {
			return err
		}
		if err := synced(ctx, c.clients[i]); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		return nil
	})
}

// AwaitFailover waits until all nodes that run agree that a replica has taken
// over from node i, which was killed, and serve.
func (c *Cluster) AwaitFailover(i int) error {
	gone := c.nodes[i].Addr()
	return c.awaitEach(fmt.Sprintf("a replica has taken over from node %d", i), func(ctx context.Context, j int) error {
		view, err := c.view(ctx, j)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(view, func(is seen) bool { return is.addr == gone && len(is.slots) > 0 }) {
			return fmt.Errorf("node %d still counts on node %d", j, i)
		}
		return c.says(ctx, j, "cluster_state", "ok")
	})
}

// AwaitReplicas waits until all replicas that run have everything that has been
// written until now, which no fail-over can lose then.
func (c *Cluster) AwaitReplicas() error {
	var running []*redis.Client
	for i, node := range c.nodes {
		if node.Running() {
			running = append(running, c.clients[i])
		}
	}
	return awaitReplicas(running)
}

// Close ends all processes and removes their files.
func (c *Cluster) Close() {
	for _, client := range c.clients {
		_ = client.Close() // a second Close is no fault
	}
	var wg sync.WaitGroup
	for _, node := range c.nodes {
		wg.Go(node.Close)
	}
	wg.Wait()
}
