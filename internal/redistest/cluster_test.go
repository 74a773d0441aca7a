package redistest_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

func TestClusterLosesAMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	ctx := t.Context()
	var addrs []string
	for i := range c.Size() {
		addrs = append(addrs, c.Node(i).Addr())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })

	lost, err := c.Master("k")
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReplicas(); err != nil {
		t.Fatal(err)
	}

	c.Kill(lost)
	if err := c.AwaitFailover(lost); err != nil {
		t.Fatal(err)
	}
	heir, err := c.Master("k")
	if err != nil || heir < 3 {
		t.Fatalf("Master(k) = %d, %v, want a former replica", heir, err)
	}
	if v, err := c.Node(heir).Client(t).Get(ctx, "k").Result(); err != nil || v != "v" {
		t.Errorf("Get(k) at node %d = %q, %v, want v", heir, v, err)
	}

	if err := c.Restart(lost); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Node(lost).Client(t).Info(ctx, "replication").Result(); err != nil || !strings.Contains(info, "master_link_status:up") {
		t.Errorf("INFO of the restarted node = %q, %v, want a replica that is up to date", info, err)
	}
	if now, err := c.Master("k"); err != nil || now != heir {
		t.Errorf("Master(k) after the restart = %d, %v, want %d", now, err, heir)
	}
}

func TestClusterOfAnotherEngine(t *testing.T) {
	t.Parallel()
	c := redistest.Valkey.StartCluster(t, 3, 0)
	if i, err := c.Master("k"); err != nil || i > 2 {
		t.Errorf("Master(k) = %d, %v, want one of three", i, err)
	}
}

// What was started of a cluster that fails to start is ended.
func TestClusterThatCannotStart(t *testing.T) {
	t.Setenv("REDIS_SERVER", "/dev/null/none")
	c, err := redistest.LaunchCluster(3, 1)
	if err == nil || c != nil {
		t.Errorf("LaunchCluster() = %v, %v, want nil and an error", c, err)
	}
}

func TestClusterMovesASlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	from, err := c.Master("k")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Node(from).Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	to := (from + 1) % c.Size()
	if err := c.Move("k", to); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Node(to).Client(t).Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("Get(k) at node %d = %q, %v, want v", to, v, err)
	}
	if err := c.Node(from).Client(t).Get(t.Context(), "k").Err(); !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("Get(k) at node %d = %v, want MOVED", from, err)
	}
}
