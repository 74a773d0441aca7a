package redis

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
)

// TestSettledSparesWhatIsNew: a tree that was put on the list anew since it was
// claimed stays there as it is. (Who settles cannot be stopped between the two
// from without.)
func TestSettledSparesWhatIsNew(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, err := Open(t.Context(), Options{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	rdb := srv.Client(t)
	const claim = 1_790_000_000_000_000
	err = rdb.ZAdd(t.Context(), s.keys.due(), goredis.Z{Score: claim, Member: "over"}, goredis.Z{Score: claim, Member: "later"},
		goredis.Z{Score: claim + 1, Member: "new"}).Err()
	if err != nil {
		t.Fatal(err)
	}
	f := s.flight()
	c := f.call(t.Context(), settledScript, []string{s.keys.due()},
		[]any{int64(claim), "over", "", "later", int64(claim + 99), "new", ""})
	f.send(t.Context())
	if n, err := c.Int(); err != nil || n != 2 {
		t.Errorf("settled() = %d, %v, want 2 trees moved", n, err)
	}
	all, err := rdb.ZRangeWithScores(t.Context(), s.keys.due(), 0, -1).Result()
	if err != nil || len(all) != 2 || all[0] != (goredis.Z{Score: claim + 1, Member: "new"}) ||
		all[1] != (goredis.Z{Score: claim + 99, Member: "later"}) {
		t.Errorf("the list = %v, %v, want new where it was, and later 99 µs on", all, err)
	}
}
