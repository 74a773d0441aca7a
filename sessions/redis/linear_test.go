package redis_test

import (
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// What several sidecars are told at once by the server that they share could
// have been told to them one by one.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	storetest.Linearizable(t, open(t, srv, redis.Options{}), open(t, srv, redis.Options{}), open(t, srv, redis.Options{}))
}
