package config

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The schema is made here rather than by a reflection library, because the
// descriptions are the comments of the example file, the defaults are Default's
// and every value may be a ${NAME}: a library knows none of these.

// schema is the part of JSON Schema 2020-12 that is needed.
type schema struct {
	Version     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Const       *int               `json:"const,omitempty"`
	AnyOf       []*schema          `json:"anyOf,omitempty"`
	Default     any                `json:"default,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
	Items       *schema            `json:"items,omitempty"`
}

// Schema returns the JSON Schema (2020-12) of the file, indented. It is for
// editors: it knows names, types, values and defaults, while rules that span
// keys are left to [Config.Validate].
func Schema() ([]byte, error) {
	comments, err := exampleComments()
	if err != nil {
		return nil, fmt.Errorf("reading the example's comments: %w", err)
	}
	d := describer{comments: comments, shared: map[typeKey]string{}}
	root := d.schema(reflect.ValueOf(Default()), "")
	root.Version = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "a2a-sidecar configuration"
	return json.MarshalIndent(root, "", "  ")
}

// describer makes the schema of the structs.
type describer struct {
	comments map[string]string  // of the example, by key
	shared   map[typeKey]string // for a group that the example spells out once and uses again
}

// typeKey is a key of a group of some type, wherever that stands.
type typeKey struct {
	group reflect.Type
	key   string
}

// schema returns the schema of the value at key, whose default is def.
func (d *describer) schema(def reflect.Value, key string) *schema {
	switch t := def.Type(); {
	case isGroup(t):
		return d.group(def, key)
	case isList(t):
		first := reflect.New(t.Elem()).Elem()
		if a, ok := reflect.TypeAssert[*Agent](first.Addr()); ok {
			*a = NewAgent("", "")
		}
		items := d.schema(first, key+"[]")
		items.Default = nil
		return &schema{Type: "array", Items: items, Default: defaultOf(def)}
	default:
		s := scalarSchema(t)
		s.Default = defaultOf(def)
		return s
	}
}

func (d *describer) group(def reflect.Value, key string) *schema {
	t := def.Type()
	s := &schema{Type: "object", Additional: new(false), Properties: map[string]*schema{}}
	for _, f := range fields(t) {
		sub, shared := subkey(key, f.key), typeKey{t, f.key}
		property := d.schema(def.Field(f.index), sub)
		property.Description = cmp.Or(d.comments[sub], d.shared[shared])
		d.shared[shared] = property.Description
		s.Properties[f.key] = property
	}
	if t == reflect.TypeFor[Agent]() {
		s.Required = []string{"name", "url"}
		for _, key := range s.Required {
			s.Properties[key].Default = nil
		}
	}
	return s
}

// expansion is a text with a ${NAME}, which may stand for any scalar.
var expansion = &schema{Type: "string", Pattern: `\$\{`}

// scalarSchema returns the schema of a scalar of type t.
func scalarSchema(t reflect.Type) *schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := func(pattern string) *schema { return &schema{Type: "string", Pattern: pattern} }
	either := func(of ...*schema) *schema { return &schema{AnyOf: append(of, expansion)} }
	switch v := reflect.Zero(t).Interface().(type) {
	case enumeration:
		return either(&schema{Enum: v.values()})
	case time.Duration:
		return either(text(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$`), &schema{Const: new(0)})
	case Size:
		return either(text(`^[0-9]+ *([KMG]i)?B$|^[0-9]+$`), &schema{Type: "integer", Minimum: new(1)})
	case netip.Prefix:
		return either(text(`^[0-9a-fA-F:.]+/[0-9]+$`))
	case StoreURL:
		return either(text(`^(` + strings.ReplaceAll(strings.Join(storeSchemes, "|"), "+", `\+`) + `):`))
	case bool:
		return either(&schema{Type: "boolean"})
	case int:
		return either(&schema{Type: "integer", Minimum: new(0)})
	default:
		return text("")
	}
}

// defaultOf returns def as it stands in a file, nil if it has no default.
func defaultOf(def reflect.Value) any {
	switch v := def.Interface().(type) {
	case encoding.TextMarshaler:
		text, _ := v.MarshalText() // none of ours fails
		return string(text)
	case time.Duration:
		return shortDuration(v)
	}
	switch def.Kind() {
	case reflect.Slice:
		if def.Type() == reflect.TypeFor[[]Agent]() {
			return nil
		}
		texts := make([]any, def.Len())
		for i := range texts {
			texts[i] = defaultOf(def.Index(i))
		}
		return texts
	case reflect.Bool:
		return def.Bool()
	case reflect.Int:
		return def.Int()
	case reflect.String:
		if _, optional := reflect.TypeAssert[enumeration](def); optional && def.String() == "" {
			return nil
		}
		return def.String()
	default:
		return nil
	}
}

// shortDuration is d as people write it: 5m, not 5m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if d >= time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// exampleComments returns the comment above each key of the example, by key. Of
// a list it takes the first item, as key[].
func exampleComments() (map[string]string, error) {
	file, err := parser.ParseBytes(Example, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	collectComments(file.Docs[0].Body, "", nil, comments)
	return comments, nil
}

// collectComments collects the comments in n, the value at key. What stands above
// n itself belongs to its first key.
func collectComments(n ast.Node, key string, above *ast.CommentGroupNode, comments map[string]string) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for i, entry := range n.Values {
			sub := subkey(key, entry.Key.GetToken().Value)
			comment := entry.GetComment()
			if i == 0 {
				comment = cmp.Or(comment, n.GetComment(), above)
			}
			if comment != nil {
				comments[sub] = paragraph(comment)
			}
			collectComments(entry.Value, sub, nil, comments)
		}
	case *ast.SequenceNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			collectComments(n.Values[0], key+"[]", cmp.Or(n.ValueHeadComments[0], n.GetComment()), comments)
		}
	}
}

// paragraph returns the last paragraph of a comment, on one line: what stands
// above an empty line belongs to no key.
func paragraph(c *ast.CommentGroupNode) string {
	var lines []string
	last := 0
	for _, line := range c.Comments {
		at := line.GetToken().Position.Line
		if last != 0 && at > last+1 {
			lines = nil
		}
		last = at
		lines = append(lines, strings.TrimSpace(line.GetToken().Value))
	}
	return strings.Join(lines, " ")
}
