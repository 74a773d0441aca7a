package config_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

// object is a JSON object.
type object = map[string]any

func loadSchema(t *testing.T) object {
	t.Helper()
	text, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema object
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// Every key of the structs is in the schema, with a description, and no other.
func TestSchemaHasEveryKey(t *testing.T) {
	t.Parallel()
	var compare func(typ reflect.Type, schema object, key string)
	compare = func(typ reflect.Type, schema object, key string) {
		if items, ok := schema["items"].(object); ok {
			compare(typ.Elem(), items, key+"[]")
			return
		}
		properties, ok := schema["properties"].(object)
		if !ok {
			return
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s permits unknown keys", key)
		}
		var keys []string
		for field := range typ.Fields() {
			name := field.Tag.Get("yaml")
			keys = append(keys, name)
			sub, ok := properties[name].(object)
			if !ok {
				t.Errorf("%s.%s is not in the schema", key, name)
				continue
			}
			if sub["description"] == nil {
				t.Errorf("%s.%s has no description: the example has no comment above it", key, name)
			}
			compare(field.Type, sub, key+"."+name)
		}
		for name := range properties {
			if !slices.Contains(keys, name) {
				t.Errorf("%s.%s is in the schema, but not in the struct", key, name)
			}
		}
	}
	compare(reflect.TypeFor[config.Config](), loadSchema(t), "")
}

func TestSchemaDetails(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)
	at := func(path ...any) any {
		var v any = schema
		for _, p := range path {
			switch p := p.(type) {
			case string:
				v = v.(object)[p]
			case int:
				v = v.([]any)[p]
			}
		}
		return v
	}
	tests := []struct {
		path []any
		want any
	}{
		{[]any{"properties", "limits", "properties", "maxChildren", "default"}, float64(8)},
		{[]any{"properties", "limits", "properties", "queueTimeout", "default"}, "5m"},
		{[]any{"properties", "retain", "default"}, "168h"},
		{[]any{"properties", "record", "properties", "maxBytes", "default"}, "16KiB"},
		{[]any{"properties", "lineage", "properties", "trust", "default", 1}, "::1/128"},
		{[]any{"properties", "agents", "items", "properties", "kind", "anyOf", 0, "enum", 1}, "worker"},
		{[]any{"properties", "agents", "items", "properties", "ttl", "default"}, nil},
		{[]any{"properties", "agents", "items", "properties", "name", "description"}, "DNS label. The agent is at /agents/NAME/ on the outbound port."},
		{[]any{"properties", "local", "description"}, "The agent beside this sidecar."},
	}
	for _, tt := range tests {
		if got := at(tt.path...); got != tt.want {
			t.Errorf("schema%v = %v, want %v", tt.path, got, tt.want)
		}
	}
}

// The example satisfies the schema in what a schema of this shape can say:
// names, shapes and enumerations.
func TestExampleFitsSchema(t *testing.T) {
	t.Parallel()
	var example any
	if err := yaml.Unmarshal(config.Example, &example); err != nil {
		t.Fatal(err)
	}
	var check func(v any, schema object, key string)
	check = func(v any, schema object, key string) {
		switch v := v.(type) {
		case object:
			if schema["type"] != "object" {
				t.Errorf("%s is a mapping, the schema says %v", key, schema["type"])
				return
			}
			for name, sub := range v {
				property, ok := schema["properties"].(object)[name].(object)
				if !ok {
					t.Errorf("%s.%s is not in the schema", key, name)
					continue
				}
				check(sub, property, key+"."+name)
			}
		case []any:
			for _, sub := range v {
				check(sub, schema["items"].(object), key+"[]")
			}
		default:
			for _, alternative := range append([]any{schema}, anyOf(schema)...) {
				if enum, ok := alternative.(object)["enum"].([]any); ok && !slices.Contains(enum, v) {
					t.Errorf("%s is %v, the schema says %v", key, v, enum)
				}
			}
		}
	}
	check(example, loadSchema(t), "")
}

func anyOf(schema object) []any {
	alternatives, _ := schema["anyOf"].([]any)
	return alternatives
}
