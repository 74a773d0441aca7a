package cardsig

import (
	"fmt"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
)

// form is what a signature may sign of a card.
type form struct {
	payload func() ([]byte, error)
	// uncovered returns the path of something that the card says and a
	// signature of this form does not cover, or empty.
	uncovered func() string
}

// forms are those of a card without its signatures, in the order that they are
// tried:
//
//  1. the card as served: what the specification says;
//  2. the same without empty values, which @a2a-js/sdk and a2a-sdk leave out;
//  3. what A2A 1.0 knows of it, without empty values: these SDKs sign the card
//     that they parsed, and some serve members of 0.3 beside it;
//  4. and 5. a card of 0.3 without empty values and defaults, as a2a-sdk 0.3
//     signs it: by the letter, and with everything but ASCII escaped.
//
// Each is made when it is needed, once.
func forms(card map[string]any) []form {
	lazily := func(what func() (map[string]any, error)) func() ([]byte, error) {
		return sync.OnceValues(func() ([]byte, error) {
			v, err := what()
			if err != nil {
				return nil, err
			}
			return canonical(v)
		})
	}
	whole := func() string { return "" }
	plain := lazily(func() (map[string]any, error) { return plain03(card), nil })
	return []form{
		{lazily(func() (map[string]any, error) { return card, nil }), whole},
		{lazily(func() (map[string]any, error) { return object(cleaned(card)), nil }), whole},
		{lazily(func() (map[string]any, error) { return known10(card) }), func() string { return uncovered10(card) }},
		{plain, whole},
		{func() ([]byte, error) {
			b, err := plain()
			return escaped(b), err
		}, whole},
	}
}

// canonical is RFC 8785.
func canonical(v map[string]any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	err = (*jsontext.Value)(&b).Canonicalize()
	return b, err
}

// object is v, or an empty object.
func object(v any) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return m
}

// cleaned returns v without null, empty strings, empty lists and empty objects,
// and without those that are empty then; nil if nothing is left.
func cleaned(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return nil
		}
	case []any:
		var list []any
		for _, element := range v {
			if c := cleaned(element); c != nil {
				list = append(list, c)
			}
		}
		if list == nil {
			return nil
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, value := range v {
			if c := cleaned(value); c != nil {
				members[name] = c
			}
		}
		if len(members) == 0 {
			return nil
		}
		return members
	}
	return v
}

// known10 is the part of a card that A2A 1.0 knows, cleaned. A value that is
// the default of its field counts as absent.
func known10(card map[string]any) (map[string]any, error) {
	b, err := json.Marshal(card)
	if err != nil {
		return nil, err
	}
	var message a2apb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &message); err != nil {
		return nil, err
	}
	if b, err = protojson.Marshal(&message); err != nil {
		return nil, err
	}
	var known map[string]any
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, err
	}
	return object(cleaned(known)), nil
}

// kind03 is the type of a security scheme of 0.3 as its other members tell it.
func kind03(scheme map[string]any) string {
	for _, s := range [...]struct{ member, kind string }{
		{"in", "apiKey"}, {"scheme", "http"}, {"flows", "oauth2"}, {"openIdConnectUrl", "openIdConnect"},
	} {
		if _, ok := scheme[s.member]; ok {
			return s.kind
		}
	}
	return "mutualTLS"
}

// plain03 is a card of 0.3, cleaned, without members that have their default:
// preferredTransport, protocolVersion, and the type of a security scheme where
// its other members tell it.
func plain03(card map[string]any) map[string]any {
	plain := object(cleaned(card))
	for name, def := range map[string]string{"preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"} {
		if plain[name] == def {
			delete(plain, name)
		}
	}
	for _, s := range object(plain["securitySchemes"]) {
		if scheme := object(s); scheme["type"] == kind03(scheme) {
			delete(scheme, "type")
		}
	}
	return object(cleaned(plain))
}

// escaped returns JSON with everything but ASCII escaped. To Python, DEL is not
// ASCII either.
func escaped(b []byte) []byte {
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return []byte(out.String())
}
