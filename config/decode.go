package config

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The YAML library parses; what its tree means is decided here, because its own
// decoder stops at the first fault.

// file applies the configuration file.
func (l *loader) file(src []byte) {
	tree, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.syntax(err)
		return
	}
	var body ast.Node
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil:
		case body == nil:
			body = doc.Body
		default:
			l.fault(place(doc.Body), "", "", &reject{problem: "starts a second document", hint: "a configuration is one document"})
		}
	}
	if body == nil {
		return
	}
	d := decoder{loader: l, anchors: map[string]ast.Node{}}
	for _, n := range ast.Filter(ast.AnchorType, body) {
		if a, ok := n.(*ast.AnchorNode); ok {
			d.anchors[a.Name.GetToken().Value] = a.Value
		}
	}
	d.value(body, reflect.ValueOf(&l.config).Elem(), "", place(body))
}

// syntax adds what the parser found.
func (l *loader) syntax(err error) {
	r := &reject{problem: "is not YAML"}
	var at *token.Position
	// The error's own text quotes the lines around, which may hold a secret.
	if e, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		r.hint = e.GetMessage()
		at = e.GetToken().Position
	}
	l.fault(at, "", "", r)
}

// fault adds a fault of the file.
func (l *loader) fault(at *token.Position, key, value string, r *reject) {
	f := r.fault(l.name, key, value)
	if at != nil {
		f.Line, f.Column = at.Line, at.Column
	}
	l.faults = append(l.faults, f)
}

// decoder walks the YAML tree and the structs side by side.
type decoder struct {
	*loader
	anchors map[string]ast.Node
}

// value sets v, the value at key, from n. Null leaves v as it is.
func (d *decoder) value(n ast.Node, v reflect.Value, key string, at *token.Position) {
	d.origins[key] = origin{name: d.name, line: at.Line, column: at.Column}
	n, r := d.resolve(n)
	if r != nil {
		d.fault(at, key, "", r)
		return
	}
	if n == nil {
		return
	}
	want := "a single value"
	switch {
	case isGroup(v.Type()):
		if m, ok := n.(ast.MapNode); ok {
			d.group(m, v, key)
			return
		}
		want = "a mapping"
	case isList(v.Type()):
		if s, ok := n.(*ast.SequenceNode); ok {
			d.list(s, v, key)
			return
		}
		want = "a list"
	default:
		if text, ok := scalar(n); ok {
			d.scalar(text, v, key, at)
			return
		}
	}
	mismatch := &reject{problem: fmt.Sprintf("is %s where %s belongs", sortOf(n), want), secret: true}
	if v.Type() == reflect.TypeFor[Secret]() {
		mismatch.hint = "name the file that holds the secret: {file: PATH}"
	}
	d.fault(at, key, "", mismatch)
}

// group sets the keys of the group v.
func (d *decoder) group(m ast.MapNode, v reflect.Value, key string) {
	seen := map[string]int{} // key → its line
	for it := m.MapRange(); it.Next(); {
		entry := it.KeyValue()
		at := place(entry.Key)
		if entry.Key.IsMergeKey() {
			d.fault(at, key, "", &reject{problem: "has a merge key (<<)", hint: "write the keys out"})
			continue
		}
		name := entry.Key.GetToken().Value
		path := subkey(key, name)
		if line, dup := seen[name]; dup {
			d.fault(at, path, "", &reject{problem: fmt.Sprintf("is already set on line %d", line)})
			continue
		}
		seen[name] = at.Line
		f, r := lookup(v.Type(), name)
		if r != nil {
			d.fault(at, path, "", r)
			continue
		}
		d.value(entry.Value, v.Field(f.index), path, at)
	}
}

// list replaces the items of the list v.
func (d *decoder) list(s *ast.SequenceNode, v reflect.Value, key string) {
	if len(s.Values) == 0 {
		v.SetZero() // one form of an empty list
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values)))
	for i, n := range s.Values {
		if a, ok := reflect.TypeAssert[*Agent](v.Index(i).Addr()); ok {
			*a = NewAgent("", "")
		}
		d.value(n, v.Index(i), item(key, i), place(n))
	}
}

// scalar sets the scalar v from text.
func (d *decoder) scalar(text string, v reflect.Value, key string, at *token.Position) {
	expanded, r := expand(text, d.lookupEnv)
	if r == nil {
		r = setText(v, expanded)
	}
	if r != nil {
		d.fault(at, key, text, r) // text, not expanded: variables hold secrets
		return
	}
	if expanded != text {
		d.origins[key] = origin{name: d.name, line: at.Line, column: at.Column, written: text}
	}
}

// resolve follows anchors and aliases to the node they mean: nil for null.
func (d *decoder) resolve(n ast.Node) (ast.Node, *reject) {
	for range 10 { // enough for honest files; an alias may stand for itself
		switch t := n.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
			return nil, nil
		case *ast.AnchorNode:
			n = t.Value
		case *ast.AliasNode:
			anchor, ok := d.anchors[t.Value.GetToken().Value]
			if !ok {
				return nil, &reject{problem: "is an alias of an anchor that does not exist"}
			}
			n = anchor
		case *ast.TagNode:
			return nil, &reject{problem: "has a YAML tag (" + t.Start.Value + ")", hint: "leave it out"}
		default:
			return n, nil
		}
	}
	return nil, &reject{problem: "is an alias that leads nowhere"}
}

// scalar returns the text of n, as it was written but for quotes.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

// sortOf names the sort of n.
func sortOf(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

// place returns where n starts.
func place(n ast.Node) *token.Position {
	if m, ok := n.(ast.MapNode); ok { // its own token is the colon after its first key
		if it := m.MapRange(); it.Next() {
			n = it.Key()
		}
	}
	return n.GetToken().Position
}
