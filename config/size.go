package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written plain or with a binary unit: 65536, 64KiB,
// 10MiB, 1GiB.
type Size int64

// Units of [Size].
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
)

// sizeUnits is ordered so that a unit stands before those that end like it, and
// a larger one before a smaller.
var sizeUnits = []struct {
	suffix string
	size   Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

var errSize = errors.New("is not a size")

// ParseSize reads a size. Decimal units (KB, MB) are refused, because people
// mean either 1000 or 1024 by them.
func ParseSize(text string) (Size, error) {
	number, unit := text, Byte
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = strings.TrimRight(n, " "), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, errSize
	}
	return Size(n) * unit, nil
}

// String returns s in the largest unit that keeps it whole.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 && u.size > Byte {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText implements [encoding.TextMarshaler]; it writes String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseSize].
func (s *Size) UnmarshalText(text []byte) error {
	size, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = size
	return nil
}
