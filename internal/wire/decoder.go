package wire

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a half-open range of offsets into a body. Nothing of interest ends
// at offset 0, so the zero span means "not there".
type span struct{ start, end int }

func (s span) found() bool { return s.end > 0 }

// holds reports whether t is there, and within s.
func (s span) holds(t span) bool { return t.found() && s.start <= t.start && t.end <= s.end }

// of returns the span's bytes, with their capacity cut so that an append to
// them cannot reach into the rest of the body.
func (s span) of(src []byte) []byte {
	if !s.found() {
		return nil
	}
	return src[s.start:s.end:s.end]
}

// member is where a key and its value stand.
type member struct{ name, value span }

// decoder is a cursor over one body. It wraps jsontext's decoder, which is
// given the body as a bytes.Buffer because that is the one reader it parses in
// place, and adds offsets. Get one with newDecoder and release it.
type decoder struct {
	src  []byte
	in   bytes.Buffer
	json jsontext.Decoder
	key  []byte // the last key that had to be unquoted
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

var (
	// strict is how everything is read that is edited: jsontext refuses
	// duplicate keys by itself. Of what it calls invalid UTF-8, the escape of
	// half a surrogate pair must pass: JavaScript writes it for a text that was
	// cut within an emoji, and agents take it.
	strict = []jsontext.Options{jsontext.AllowInvalidUTF8(true)}
	// tolerant is how everything is read that is only observed.
	tolerant = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
)

func newDecoder(src []byte, opts []jsontext.Options) *decoder {
	d := decoders.Get().(*decoder)
	d.src = src
	d.in = *bytes.NewBuffer(src)
	d.json.Reset(&d.in, opts...)
	return d
}

// release returns d to the pool, without its hold on the body. What d read
// aliases the body, not d, and stays good.
func (d *decoder) release() {
	d.src = nil
	d.in = bytes.Buffer{}
	d.json.Reset(&d.in)
	if cap(d.key) > 1<<10 {
		d.key = nil
	}
	decoders.Put(d)
}

// next is the kind of the value that comes next: '{', '[', '"', '0', 't', 'f'
// or 'n'; '}' or ']' at an end; 0 at a fault, which the next read returns.
func (d *decoder) next() jsontext.Kind { return d.json.PeekKind() }

// value reads the next value whole.
func (d *decoder) value() (span, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return span{}, err
	}
	end := int(d.json.InputOffset())
	return span{end - len(v), end}, nil
}

// offset is where the value that comes next starts. Where none does, the read
// that follows says so.
func (d *decoder) offset() int {
	d.next()
	at := int(d.json.InputOffset())
	for at < len(d.src) && (isSpace(d.src[at]) || d.src[at] == ',' || d.src[at] == ':') {
		at++
	}
	return at
}

// open reads the '{' or '[' that comes next and returns its offset.
func (d *decoder) open() (int, error) {
	_, err := d.json.ReadToken()
	return int(d.json.InputOffset()) - 1, err
}

// close reads the '}' or ']' that comes next and returns the offset after it.
func (d *decoder) close() (int, error) {
	_, err := d.json.ReadToken()
	return int(d.json.InputOffset()), err
}

// name reads the next key of the object the cursor is in. The returned bytes
// are unquoted, so that "context\u0049d" is contextId, and good until the next
// call; where spans the key as spelled. At the object's end, which is left to
// read, name returns nil.
func (d *decoder) name() (name []byte, where span, err error) {
	if d.next() == '}' {
		return nil, span{}, nil
	}
	where, err = d.value()
	if err != nil {
		return nil, span{}, err
	}
	raw := d.src[where.start:where.end]
	if plain(raw) {
		return raw[1 : len(raw)-1], where, nil
	}
	// The only error is invalid UTF-8 in a tolerant read. It is replaced.
	d.key, _ = jsontext.AppendUnquote(d.key[:0], raw)
	return d.key, where, nil
}

// text reads the next value and returns it decoded if it is a string.
func (d *decoder) text() (string, error) {
	at, err := d.value()
	if err != nil {
		return "", err
	}
	s, _ := unquote(at.of(d.src))
	return s, nil
}

// number reads the next value and returns it if it is an integer.
func (d *decoder) number() (int, error) {
	at, err := d.value()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(at.of(d.src)))
	if err != nil {
		return 0, nil //nolint:nilerr // anything else is as good as absent
	}
	return n, nil
}

// flag reads the next value and reports whether it is true.
func (d *decoder) flag() (bool, error) {
	at, err := d.value()
	return err == nil && d.src[at.start] == 't', err
}

// plain reports that a JSON string has no escapes.
func plain(raw []byte) bool { return bytes.IndexByte(raw, '\\') < 0 }

// unquote decodes a raw JSON value that is a string, and reports whether it is
// one. Invalid UTF-8 is replaced.
func unquote(raw []byte) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if plain(raw) {
		return strings.ToValidUTF8(string(raw[1:len(raw)-1]), "\uFFFD"), true
	}
	b, _ := jsontext.AppendUnquote(nil, raw)
	return string(b), true
}

// skip reads the next value and forgets it.
func (d *decoder) skip() error {
	_, err := d.json.ReadValue()
	return err
}

// raw reads the next value and returns it if it is of that kind.
func (d *decoder) raw(kind jsontext.Kind) ([]byte, error) {
	wanted := d.next() == kind
	at, err := d.value()
	if err != nil || !wanted {
		return nil, err
	}
	return at.of(d.src), nil
}

// members walks the object that comes next. It calls visit after each key, to
// read the value; the key is good until the next call of name. Any other value
// is skipped.
func (d *decoder) members(visit func(name []byte) error) error {
	if d.next() != '{' {
		return d.skip()
	}
	if _, err := d.open(); err != nil {
		return err
	}
	for {
		name, _, err := d.name()
		if err != nil {
			return err
		}
		if name == nil {
			_, err := d.close()
			return err
		}
		if err := visit(name); err != nil {
			return err
		}
	}
}

// elements walks the array that comes next. It calls visit before each value,
// to read it. Any other value is skipped.
func (d *decoder) elements(visit func() error) error {
	if d.next() != '[' {
		return d.skip()
	}
	if _, err := d.open(); err != nil {
		return err
	}
	for d.next() != ']' {
		if err := visit(); err != nil {
			return err
		}
	}
	_, err := d.close()
	return err
}
