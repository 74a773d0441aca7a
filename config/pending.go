package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
)

// pending is what the configuration already names but this version does not do
// yet. Deleting a line enables the key; nothing else knows of it.
var pending = []struct {
	key         string // with [] for any item of a list
	unavailable func(v, def reflect.Value) bool
}{
	{"listen.inbound", changed},
	{"listen.tls", changed},
	{"agents[].join", is("onReturn")},
	{"agents[].busy", is("queue", "reject")},
	{"agents[].inherit", is("summary")},
	{"agents[].allowOverrides", changed},
	{"branches.acrossTurns", is("visible")},
	{"lineage.trust", changed},
}

// changed holds for any value but the default. An empty list is as good as none.
func changed(v, def reflect.Value) bool {
	if isList(v.Type()) && v.Len() == 0 && def.Len() == 0 {
		return false
	}
	return !reflect.DeepEqual(v.Interface(), def.Interface())
}

// is holds for the given values.
func is(values ...string) func(v, def reflect.Value) bool {
	return func(v, _ reflect.Value) bool { return slices.Contains(values, v.String()) }
}

var itemIndex = regexp.MustCompile(`\[\d+\]`)

// pending checks c against the table.
func (k *checker) pending(c *Config) {
	def := Default()
	def.Agents = []Agent{NewAgent("", "")}
	defaults := map[string]reflect.Value{}
	walk(reflect.ValueOf(def), "", func(key string, v reflect.Value) {
		defaults[itemIndex.ReplaceAllString(key, "[]")] = v
	})
	walk(reflect.ValueOf(*c), "", func(key string, v reflect.Value) {
		general := itemIndex.ReplaceAllString(key, "[]")
		for _, p := range pending {
			if p.key == general && p.unavailable(v, defaults[general]) {
				value := ""
				if !isGroup(v.Type()) && !isList(v.Type()) {
					value = fmt.Sprint(v.Interface())
				}
				k.add(key, value, "is not available in this version", "")
			}
		}
	})
}
