package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, tt := range []struct {
		name   string
		values []int
		p      float64
		want   int
	}{
		{"none", nil, 99, 0},
		{"one", []int{7}, 1, 7},
		{"median of two is the lower", []int{2, 1}, 50, 1},
		{"median of three", []int{3, 1, 2}, 50, 2},
		{"p50 of 100", hundred, 50, 50},
		{"p99 of 100", hundred, 99, 99},
		{"p99.9 of 100", hundred, 99.9, 100},
		{"p100", hundred, 100, 100},
		{"p99 of ten is the most", []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 10}, 99, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			values := append([]int(nil), tt.values...)
			if got := percentile(values, tt.p); got != tt.want {
				t.Errorf("percentile(%v, %g) = %d, want %d", tt.values, tt.p, got, tt.want)
			}
		})
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, tt := range []struct {
		name   string
		values []float64
		want   spread
	}{
		{"nothing", nil, spread{nan, nan, nan}},
		{"only NaN", []float64{nan, nan}, spread{nan, nan, nan}},
		{"one", []float64{3}, spread{3, 3, 3}},
		{"odd", []float64{9, 1, 2}, spread{2, 1, 9}},
		{"even", []float64{4, 1, 2, 100}, spread{3, 1, 100}},
		{"NaN does not count", []float64{nan, 5, nan, 1, 3}, spread{3, 1, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := append([]float64(nil), tt.values...)
			if diff := cmp.Diff(tt.want, over(tt.values), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("over(%v) (-want +got):\n%s", tt.values, diff)
			}
			if diff := cmp.Diff(before, tt.values, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("over changed its argument (-before +after):\n%s", diff)
			}
		})
	}
}
