package main

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// How many live children the parent has, with the new one.
const (
	fewChildren  = 8
	manyChildren = 10_000
)

// admission is how long one takes, beside a plain HSET: medians, in µs.
type admission struct {
	Children  int     `json:"children"`
	HSET      float64 `json:"hsetMicros"`
	Admission float64 `json:"admissionMicros"`
	Ratio     float64 `json:"ratio"`
}

func (a admission) aim() float64 {
	if a.Children <= fewChildren {
		return aimFew
	}
	return aimMany
}

// measureAdmissions admits a call at a time, as the last child that the cap
// allows, and each time makes an HSET as well: both one round trip.
func measureAdmissions(ctx context.Context, short bool) (all []admission, err error) {
	srv, err := redistest.Launch() //nolint:contextcheck // it bounds itself
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	store, err := openRedis(ctx, srv.URL())
	if err != nil {
		return nil, err
	}
	defer closing(&err, store.Close)
	plain := plainClient(srv)
	defer closing(&err, plain.Close)
	rounds := 20_000
	if short {
		rounds = 4000
	}
	for _, children := range []int{fewChildren, manyChildren} {
		a, err := besideHSET(ctx, store, plain, children, rounds)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// plainClient speaks to the server as the store does.
func plainClient(srv *redistest.Server) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: srv.Addr(), MaxRetries: -1, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func besideHSET(ctx context.Context, store sessions.Store, plain *goredis.Client, children, rounds int) (admission, error) {
	root := fmt.Sprintf("admissions-%d", children)
	siblings := make([]*sessions.Op, children-1)
	for i := range siblings {
		siblings[i] = admit(root, children)
	}
	if err := apply(ctx, store, siblings); err != nil {
		return admission{}, err
	}
	var hsets, admissions []time.Duration
	value := make([]byte, 64)
	for n := range rounds {
		op := admit(root, children)
		hset := func() error {
			ctx, cancel := context.WithTimeout(ctx, waiting) // as the store has one
			defer cancel()
			began := time.Now()
			err := plain.HSet(ctx, "bench", op.Admit.SessionID[:4], value).Err()
			hsets = append(hsets, time.Since(began))
			return err
		}
		place := func() error {
			began := time.Now()
			store.Apply(ctx, []*sessions.Op{op})
			admissions = append(admissions, time.Since(began))
			return op.Err
		}
		first, second := hset, place
		if n%2 == 1 {
			first, second = place, hset
		}
		if err := first(); err != nil {
			return admission{}, err
		}
		if err := second(); err != nil {
			return admission{}, err
		}
		if err := apply(ctx, store, []*sessions.Op{end(op)}); err != nil {
			return admission{}, err
		}
	}
	micros := func(d []time.Duration) float64 { return float64(percentile(d, 50)) / float64(time.Microsecond) }
	a := admission{Children: children, HSET: micros(hsets), Admission: micros(admissions)}
	a.Ratio = a.Admission / a.HSET
	return a, nil
}
