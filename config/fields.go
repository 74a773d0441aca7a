package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file is how the loader, Validate and Schema see the structs: as a tree
// of keys. A group is a struct with keys of its own; a list is a slice;
// everything else is a scalar, which has a text form.

// field is one key of a group.
type field struct {
	key   string
	index int
	typ   reflect.Type
}

// fields returns the keys of group t in the order of the struct.
func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			out = append(out, field{key, i, t.Field(i).Type})
		}
	}
	return out
}

func isGroup(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice }

// lookup finds name in group t.
func lookup(t reflect.Type, name string) (field, *reject) {
	all := fields(t)
	var keys []string
	for _, f := range all {
		if f.key == name {
			return f, nil
		}
		keys = append(keys, f.key)
	}
	return field{}, &reject{problem: "is not a key of the configuration", hint: didYouMean(name, keys), secret: true}
}

// subkey returns the path of name in the group at key.
func subkey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func item(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

// outer returns the path of what the value at key stands in, "" at the top.
func outer(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

// walk visits v and everything in it, with its path.
func walk(v reflect.Value, key string, visit func(key string, v reflect.Value)) {
	visit(key, v)
	switch {
	case isGroup(v.Type()):
		for _, f := range fields(v.Type()) {
			walk(v.Field(f.index), subkey(key, f.key), visit)
		}
	case isList(v.Type()):
		for i := range v.Len() {
			walk(v.Index(i), item(key, i), visit)
		}
	}
}

// reject says why a value was not taken.
type reject struct {
	problem, hint string
	secret        bool // the value may be one, or does not matter: do not show it
}

func (r *reject) fault(file, key, value string) Fault {
	if r.secret {
		value = ""
	}
	return newFault(file, key, value, r.problem, r.hint)
}

// setScalar sets the scalar at path in the group that root points to. Without
// given, there is no text and the scalar must be a switch, which goes on.
func setScalar(root any, path, text string, given bool) *reject {
	v := reflect.ValueOf(root).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if !isGroup(v.Type()) {
			return &reject{problem: "is not a key of the configuration", secret: true}
		}
		f, r := lookup(v.Type(), name)
		if r != nil {
			return r
		}
		v = v.Field(f.index)
	}
	switch {
	case isGroup(v.Type()) || isList(v.Type()):
		return &reject{problem: "has no single value", hint: "set it in the file", secret: true}
	case !given && v.Kind() == reflect.Bool:
		text = "true"
	case !given:
		return &reject{problem: "has no value", hint: "write " + path + "=VALUE"}
	}
	return setText(v, text)
}

// setText sets scalar v from its text. If it returns a reject, v is as it was.
func setText(v reflect.Value, text string) *reject {
	if v.Kind() == reflect.Pointer {
		set := reflect.New(v.Type().Elem())
		if r := setText(set.Elem(), text); r != nil {
			return r
		}
		v.Set(set)
		return nil
	}
	switch p := v.Addr().Interface().(type) {
	case enumeration:
		if !slices.Contains(p.values(), text) {
			return &reject{problem: "is not one of " + strings.Join(p.values(), ", "), hint: didYouMean(text, p.values())}
		}
		v.SetString(text)
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return &reject{problem: "is not a duration", hint: "write a number and a unit, such as 90s, 5m or 168h"}
		}
		*p = d
	case *Size:
		s, err := ParseSize(text)
		if err != nil {
			return &reject{problem: err.Error(), hint: "write bytes or a binary unit, such as 65536, 16KiB or 10MiB"}
		}
		*p = s
	case *netip.Prefix:
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return &reject{problem: "is not a network in CIDR form", hint: prefixHint(text)}
		}
		*p = prefix
	case *StoreURL:
		*p = NewStoreURL(text)
	case *bool:
		if text != "true" && text != "false" {
			return &reject{problem: "is neither true nor false"}
		}
		*p = text == "true"
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return &reject{problem: "is not a whole number"}
		}
		*p = n
	case *string:
		*p = text
	default:
		panic(fmt.Sprintf("config: no text form for %T", p)) // a new field's type: every test loads one of each
	}
	return nil
}

func prefixHint(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return "such as 10.0.0.0/8"
	}
	return fmt.Sprintf("did you mean %s/%d?", addr, addr.BitLen())
}
