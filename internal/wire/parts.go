package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Part is what a record keeps of one part of a message or an artifact. Of a
// file that is its description, never its bytes.
type Part struct {
	// Kind is "text", "data" or "file", or "" for a part that is none of them.
	Kind string
	Text string // of a text part
	Data []byte // of a data part: raw JSON, aliasing the input

	Name, MediaType string // of any part that has them; 1.0 allows that
	URI             string // of a file by reference
	// Bytes and SHA256 are the size of an inline file once decoded, and its
	// digest in hex. They are 0 and "" if it is not base64.
	Bytes  int
	SHA256 string
}

// ReadParts reads a raw JSON array of parts, in the shapes of 0.3 (kind with
// text, data or file) and of 1.0 (text, data, raw or url). It returns nil for
// an empty or absent array. Elements that are not understood become parts
// without a kind, so that a record shows there was something. An error means
// that raw is not a JSON array; it does not quote raw.
func ReadParts(raw []byte) ([]Part, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := newDecoder(raw, tolerant)
	defer d.release()
	if kind := d.next(); kind != '[' && kind != 0 {
		return nil, errors.New("parts are not an array")
	}
	var parts []Part
	err := d.elements(func() error {
		p, err := readPart(d)
		parts = append(parts, p)
		return err
	})
	if err != nil {
		_, what := describe("parts", err)
		return nil, errors.New(what)
	}
	return parts, nil
}

// readPart reads one part. What it is follows from its members: kind, or type
// as earlier drafts have it, says nothing that they do not.
func readPart(d *decoder) (Part, error) {
	var (
		p    Part
		text span
		data dataMember
		file bool
		kind bool
	)
	err := d.members(func(name []byte) (err error) {
		switch string(name) {
		case "text":
			text, err = d.value()
		case "data":
			data, err = readData(d)
		case "kind":
			kind = true
			err = d.skip()
		case "file":
			file = file || d.next() == '{'
			err = d.members(func(name []byte) error { return p.fileMember(d, name) })
		case "raw", "url":
			file = file || d.next() == '"'
			err = p.fileMember(d, name)
		case "filename", "mediaType", "media_type":
			err = p.fileMember(d, name)
		default:
			err = d.skip()
		}
		return err
	})
	if err != nil {
		return Part{}, err
	}
	// 1.0 allows data to be null, but some write null for what is absent.
	var isText bool
	p.Text, isText = unquote(text.of(d.src))
	switch {
	case isText:
		p.Kind = "text"
	case file:
		p.Kind = "file"
	case data.boxed.found() && !kind:
		p.Kind, p.Data = "data", data.boxed.of(d.src)
	case data.whole.found():
		p.Kind, p.Data = "data", data.whole.of(d.src)
	}
	return p, nil
}

// dataMember is the value of data.
type dataMember struct {
	whole span
	// boxed is the object in it that is named data and alone there: so the
	// ProtoJSON of 0.3 has the data, in parts without a kind.
	boxed span
}

func readData(d *decoder) (m dataMember, err error) {
	if d.next() != '{' {
		m.whole, err = d.value()
		return m, err
	}
	start, others := d.offset(), 0
	err = d.members(func(name []byte) (err error) {
		if string(name) == "data" && d.next() == '{' {
			m.boxed, err = d.value()
			return err
		}
		others++
		return d.skip()
	})
	m.whole = span{start, int(d.json.InputOffset())}
	if others > 0 {
		m.boxed = span{}
	}
	return m, err
}

// fileMember reads the value of a member that describes a file: in the part
// itself (1.0), or in its file object (0.3; its proto has the longer names).
func (p *Part) fileMember(d *decoder, name []byte) (err error) {
	switch string(name) {
	case "bytes", "raw", "fileWithBytes", "file_with_bytes":
		at, err := d.value()
		if err != nil {
			return err
		}
		p.Bytes, p.SHA256 = digest(at.of(d.src))
	case "uri", "url", "fileWithUri", "file_with_uri":
		p.URI, err = d.text()
	case "name", "filename":
		p.Name, err = d.text()
	case "mimeType", "mime_type", "mediaType", "media_type":
		p.MediaType, err = d.text()
	default:
		err = d.skip()
	}
	return err
}

// digest decodes a raw JSON string of base64 and returns the size and the hex
// SHA-256 of what is in it, without ever holding all of it. It takes the
// standard and the URL alphabet, padded or not, with line breaks or without.
// It returns 0 and "" for anything else.
func digest(raw []byte) (size int, sum string) {
	if len(raw) < 2 || raw[0] != '"' {
		return 0, ""
	}
	text := raw[1 : len(raw)-1]
	if !plain(raw) { // some encoders write \/
		text, _ = jsontext.AppendUnquote(nil, raw)
	}
	text = bytes.TrimRight(text, "=\r\n")

	const block = 4 << 10 // a multiple of 4, so that only the last is partial
	var (
		in   [block]byte
		out  [block / 4 * 3]byte
		hash = sha256.New()
	)
	for len(text) > 0 {
		n := 0
		for len(text) > 0 && n < block {
			c := text[0]
			text = text[1:]
			switch c {
			case '\r', '\n':
				continue
			case '-':
				c = '+'
			case '_':
				c = '/'
			}
			in[n] = c
			n++
		}
		decoded, err := base64.RawStdEncoding.Decode(out[:], in[:n])
		if err != nil {
			return 0, ""
		}
		hash.Write(out[:decoded])
		size += decoded
	}
	return size, hex.EncodeToString(hash.Sum(nil))
}
