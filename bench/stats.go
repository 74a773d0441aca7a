package main

import (
	"cmp"
	"math"
	"slices"
)

// percentile returns the p-th percentile (0 < p <= 100) by nearest rank: the
// smallest value that at least p percent of all are not above. It sorts values,
// and returns the zero value for none.
func percentile[T cmp.Ordered](values []T, p float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	slices.Sort(values)
	// In hundredths, so that 99% of 100 is the 99th and not, by a rounding
	// error, the 100th.
	rank := int(math.Ceil(math.Round(p*float64(len(values))) / 100))
	return values[min(max(rank, 1), len(values))-1]
}

// spread is what the rounds gave for one quantity. Where they gave nothing, all
// of it is NaN.
type spread struct{ Median, Min, Max float64 }

// over makes the spread of a quantity over the rounds; NaN, a round that gave
// none, does not count.
func over(values []float64) spread {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	n := len(values)
	return spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Min: values[0], Max: values[n-1]}
}
