package redistest_test

import (
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

func TestSentinelLosesItsMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	ctx := t.Context()
	master, err := s.Master()
	if err != nil {
		t.Fatal(err)
	}
	if err := master.Client(t).Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.AwaitReplicas(); err != nil {
		t.Fatal(err)
	}

	lost, err := s.KillMaster()
	if err != nil || lost != master {
		t.Fatalf("KillMaster() = %v, %v, want %v, nil", lost, err, master)
	}
	if err := s.AwaitFailover(lost); err != nil {
		t.Fatal(err)
	}
	heir, err := s.Master()
	if err != nil || heir == lost {
		t.Fatalf("Master() = %v, %v, want the other server", heir, err)
	}
	if v, err := heir.Client(t).Get(ctx, "k").Result(); err != nil || v != "v" {
		t.Errorf("Get(k) at the new master = %q, %v, want v", v, err)
	}
	if err := heir.Client(t).Set(ctx, "k", "w", 0).Err(); err != nil {
		t.Errorf("Set(k) at the new master = %v", err)
	}
	if err := s.Restart(lost); err != nil {
		t.Fatal(err)
	}
	if v, err := lost.Client(t).Get(ctx, "k").Result(); err != nil || v != "w" {
		t.Errorf("Get(k) at the old master = %q, %v, want w", v, err)
	}
}
