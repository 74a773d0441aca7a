package redis

import (
	"encoding/binary"
	"errors"
	"time"
)

// errDamaged: what the server holds was not written by the scripts, or in part
// only (evicted, edited by hand).
var errDamaged = errors.New("the record is damaged")

// Records, and lists in keys and replies, are MessagePack: what the scripts
// read and write fastest. This is the part of it that they use: strings of any
// bytes, integers, booleans, and arrays of them. A record is values one after
// another, a list an array.

// pack spells a list of up to 15 strings. One list has one spelling, so it may
// be compared as bytes.
func pack(list ...string) string {
	n := 1
	for _, s := range list {
		n += 5 + len(s)
	}
	b := append(make([]byte, 0, n), 0x90|byte(len(list)))
	for _, s := range list {
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(s)))
		b = append(b, s...)
	}
	return string(b)
}

// packed reads packed values from front to back. The first thing that is not
// what was asked for is remembered in err, and what follows is zero.
type packed struct {
	raw  string
	left int // of the array; -1: all there are
	err  error
}

// values begins to read a record.
func values(raw string) *packed { return &packed{raw: raw, left: -1} }

// unpack begins to read a list. An empty one may be spelled as nothing.
func unpack(raw string) *packed {
	if raw == "" {
		return &packed{}
	}
	p := &packed{raw: raw, left: 1}
	p.left = p.array()
	return p
}

func (p *packed) more() bool { return p.err == nil && (p.left > 0 || p.left < 0 && p.raw != "") }

// take cuts n bytes off.
func (p *packed) take(n uint64) string {
	if p.err != nil || uint64(len(p.raw)) < n {
		p.err = errDamaged
		return ""
	}
	s := p.raw[:n]
	p.raw = p.raw[n:]
	return s
}

// head begins the next value.
func (p *packed) head() byte {
	if p.left == 0 {
		p.err = errDamaged
	}
	if p.left > 0 {
		p.left--
	}
	if b := p.take(1); p.err == nil {
		return b[0]
	}
	return 0xc1 // never used
}

// uint reads an unsigned integer of n bytes.
func (p *packed) uint(n uint64) uint64 {
	var v uint64
	for _, b := range []byte(p.take(n)) {
		v = v<<8 | uint64(b)
	}
	return v
}

// wrong notes that the value that b begins is not what was asked for.
func (p *packed) wrong() { p.err = errDamaged }

func (p *packed) array() int {
	switch b := p.head(); {
	case b&0xf0 == 0x90:
		return int(b & 0x0f)
	case b == 0xdc:
		return int(p.uint(2))
	case b == 0xdd:
		return int(p.uint(4))
	}
	p.wrong()
	return 0
}

func (p *packed) str() string {
	switch b := p.head(); {
	case b&0xe0 == 0xa0:
		return p.take(uint64(b & 0x1f))
	case b >= 0xd9 && b <= 0xdb:
		return p.take(p.uint(1 << (b - 0xd9)))
	}
	p.wrong()
	return ""
}

// num is 0 for false, which is what is not there.
func (p *packed) num() int64 {
	switch b := p.head(); {
	case b < 0x80:
		return int64(b)
	case b >= 0xe0:
		return int64(int8(b))
	case b >= 0xcc && b <= 0xcf:
		return int64(p.uint(1 << (b - 0xcc)))
	case b >= 0xd0 && b <= 0xd3:
		width := uint64(1) << (b - 0xd0)
		return int64(p.uint(width)<<(64-8*width)) >> (64 - 8*width)
	case b == 0xc2:
		return 0
	}
	p.wrong()
	return 0
}

func (p *packed) flag() bool {
	b := p.head()
	if b != 0xc2 && b != 0xc3 {
		p.wrong()
	}
	return b == 0xc3
}

func (p *packed) time() time.Time { return fromMicros(p.num()) }

// when is nil for a time that is not there.
func (p *packed) when() *time.Time {
	n := p.num()
	if n == 0 {
		return nil
	}
	t := fromMicros(n)
	return &t
}

// skip passes over n numbers.
func (p *packed) skip(n int) {
	for range n {
		p.num()
	}
}

// list reads a list of strings in a record.
func (p *packed) list() []string {
	n := p.array()
	var list []string
	for range n {
		list = append(list, p.str())
	}
	return list
}

// strings reads the rest, which are strings.
func (p *packed) strings() []string {
	var list []string
	for p.more() {
		list = append(list, p.str())
	}
	return list
}
