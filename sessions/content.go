package sessions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Keep says how much of what agents say to each other the record keeps.
type Keep string

// What is kept.
const (
	KeepText Keep = "text" // text and data parts, up to a size; files by name, type, size and digest
	KeepFull Keep = "full" // every part as it came, files included
	KeepNone Keep = "none" // that there was a message, and how many parts it had
)

// Bounds of what is kept beside texts and data, whatever the policy.
const (
	summaryBytes = 2048 // of the summary in a session's result
	labelBytes   = 512  // of a name, a media type, a URI
	maxParts     = 256  // that one event describes; it counts them all
)

// redacted stands where a redaction pattern matched.
const redacted = "[redacted]"

// Content is the policy of what is kept. It is applied before anything leaves
// the process, so that a store never sees what it must not keep.
type Content struct {
	Keep     Keep
	MaxBytes int              // of one event's parts, in bytes, with KeepText
	Redact   []*regexp.Regexp // replaced in texts and data, with KeepText and KeepFull
}

// keptPart is a part as the record has it.
type keptPart struct {
	Kind      string          `json:"kind,omitempty"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Name      string          `json:"name,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	URI       string          `json:"uri,omitempty"`
	Bytes     int             `json:"bytes,omitempty"`
	SHA256    string          `json:"sha256,omitempty"`
	Cut       int             `json:"cut,omitempty"` // bytes left out at the end
}

// kept is the members that a policy adds to an event about parts.
type kept struct {
	Parts any `json:"parts,omitempty"`
	Count int `json:"partCount"`
}

// parts applies the policy to a raw JSON array of parts.
func (c *Content) parts(raw []byte) kept {
	parts, err := wire.ReadParts(raw)
	if err != nil {
		return kept{}
	}
	k := kept{Count: len(parts)}
	switch c.Keep {
	case KeepNone:
	case KeepFull:
		if text := c.redactJSON(raw); json.Valid([]byte(text)) {
			k.Parts = json.RawMessage(text)
		} else {
			k.Parts = text // a pattern broke the JSON: better a string than a leak
		}
	default:
		if len(parts) > 0 {
			k.Parts = c.keepText(parts)
		}
	}
	return k
}

func (c *Content) keepText(parts []wire.Part) []keptPart {
	room := c.MaxBytes
	parts = parts[:min(len(parts), maxParts)]
	out := make([]keptPart, len(parts))
	for i, p := range parts {
		k := keptPart{
			Kind: p.Kind, Name: c.label(p.Name), MediaType: c.label(p.MediaType), URI: c.label(p.URI),
			Bytes: p.Bytes, SHA256: p.SHA256,
		}
		switch p.Kind {
		case "text":
			text := c.redact(p.Text)
			k.Text = cut(text, room)
			k.Cut = len(text) - len(k.Text)
			room -= len(k.Text)
		case "data":
			data := c.redactJSON(p.Data)
			switch {
			case len(data) > room:
				k.Cut = len(data)
			case json.Valid([]byte(data)):
				k.Data = json.RawMessage(data)
				room -= len(data)
			default:
				k.Text = data
				room -= len(data)
			}
		}
		out[i] = k
	}
	return out
}

func (c *Content) redact(s string) string {
	for _, re := range c.Redact {
		s = re.ReplaceAllLiteralString(s, redacted)
	}
	return s
}

// redactJSON redacts raw JSON, first each string in it as it reads, since
// encoders are free in how they escape it, and then the whole as it stands,
// for patterns that know a member's name.
func (c *Content) redactJSON(raw []byte) string {
	if len(c.Redact) == 0 {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	// As tolerant as the reading of the parts was.
	opts := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	var out bytes.Buffer
	in, enc := jsontext.NewDecoder(bytes.NewReader(raw), opts...), jsontext.NewEncoder(&out, opts...)
	for {
		t, err := in.ReadToken()
		if err != nil {
			break // the end: it has been read before
		}
		if t.Kind() == '"' {
			t = jsontext.String(c.redact(t.String()))
		}
		if err := enc.WriteToken(t); err != nil {
			break
		}
	}
	return c.redact(strings.ToValidUTF8(strings.TrimSpace(out.String()), "\uFFFD"))
}

// label is a name as the record has it.
func (c *Content) label(s string) string { return cut(c.redact(s), labelBytes) }

// summary is the text of parts as a session's result shows it.
func (c *Content) summary(raw []byte) string {
	if c.Keep == KeepNone {
		return ""
	}
	parts, err := wire.ReadParts(raw)
	if err != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		if p.Kind == "text" && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return c.said(strings.Join(texts, "\n"))
}

// said is a text as a session's result shows it.
func (c *Content) said(text string) string {
	if c.Keep == KeepNone {
		return ""
	}
	return cut(c.redact(text), summaryBytes)
}

// text is a text as an event of its own holds it.
func (c *Content) text(text string) string {
	switch c.Keep {
	case KeepNone:
		return ""
	case KeepFull:
		return c.redact(text)
	default:
		return cut(c.redact(text), c.MaxBytes)
	}
}

// cut returns at most n bytes of s, ending at a whole character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// describe says what an artifact is without holding it. The digest is over its
// contents joined, so that it is the same however the artifact was cut into
// chunks.
func describe(id, name string, parts []wire.Part) lineage.Artifact {
	a := lineage.Artifact{ID: id, Name: name}
	h := sha256.New()
	for _, p := range parts {
		if a.MediaType == "" {
			a.MediaType = mediaType(p)
		}
		switch p.Kind {
		case "text":
			a.Bytes += len(p.Text)
			h.Write([]byte(p.Text))
		case "data":
			a.Bytes += len(p.Data)
			h.Write(p.Data)
		default:
			a.Bytes += p.Bytes
			h.Write([]byte(p.SHA256 + p.URI))
		}
	}
	a.SHA256 = hex.EncodeToString(h.Sum(nil))
	return a
}

func mediaType(p wire.Part) string {
	switch {
	case p.MediaType != "":
		return p.MediaType
	case p.Kind == "text":
		return "text/plain"
	case p.Kind == "data":
		return "application/json"
	default:
		return ""
	}
}
