package config

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Source is everything that a configuration is made of.
type Source struct {
	// Name is what faults call the file; usually its path.
	Name string
	// YAML is the content of the file. None is the same as an empty file.
	YAML []byte
	// LookupEnv gives the value of an environment variable and whether it is
	// set. Nil means that none is.
	LookupEnv func(name string) (string, bool)
	// Flags are those that were given on the command line, in their order.
	Flags []Flag
}

// Flag is a command-line flag that sets one key.
type Flag struct {
	Name  string // as faults show it, such as --outbound
	Key   string // such as listen.outbound; agents adds the agent that ParseAgentFlag reads
	Value string
}

// Load makes a configuration: [Default], then the file, then the environment,
// then the flags, and validates the whole. If anything is wrong the error is
// [Faults], with everything that is.
//
// Every scalar key outside agents can be set by the variable SIDECAR_ and its
// path in upper snake case: SIDECAR_STORE, SIDECAR_LISTEN_OUTBOUND,
// SIDECAR_LIMITS_MAX_CHILDREN, SIDECAR_LIMITS_HTTP_MAX_BODY. An empty variable
// counts as not set. Other SIDECAR_* variables are ignored, not faults:
// SIDECAR_CONFIG and SIDECAR_ADMIN are the command's own, and Kubernetes gives
// every pod SIDECAR_PORT, SIDECAR_SERVICE_HOST and more when there is a Service
// named sidecar.
//
// A flag replaces an agent of the file that has the same name.
func Load(src Source) (Config, error) {
	l := loader{
		config:    Default(),
		name:      src.Name,
		lookupEnv: src.LookupEnv,
		origins:   map[string]origin{},
	}
	if l.lookupEnv == nil {
		l.lookupEnv = func(string) (string, bool) { return "", false }
	}
	l.file(src.YAML)
	l.environment()
	l.flags(src.Flags)
	l.validate()
	if err := l.faults.err(); err != nil {
		return Config{}, err
	}
	return l.config, nil
}

// loader puts a configuration together. It goes on after a fault, leaving what
// it was about as it was, to find the others too.
type loader struct {
	config    Config
	name      string // of the file
	lookupEnv func(string) (string, bool)
	origins   map[string]origin // by key
	faults    Faults
}

// origin is where a value came from.
type origin struct {
	name         string // file, variable or flag
	line, column int    // 0 outside a file
	written      string // the text before expansion; "" if there was none to do
}

// environment applies the SIDECAR_* variables.
func (l *loader) environment() {
	walk(reflect.ValueOf(&l.config).Elem(), "", func(key string, v reflect.Value) {
		if isGroup(v.Type()) || isList(v.Type()) || strings.Contains(key, "[") {
			return
		}
		name := variable(key)
		text, ok := l.lookupEnv(name)
		if !ok || text == "" {
			return
		}
		l.origins[key] = origin{name: name}
		if r := setText(v, text); r != nil {
			l.faults = append(l.faults, r.fault(name, key, text))
		}
	})
}

var wordBoundary = regexp.MustCompile(`([a-z])([A-Z])`)

// variable returns the name of the environment variable that sets key.
func variable(key string) string {
	key = wordBoundary.ReplaceAllString(key, "${1}_${2}")
	return "SIDECAR_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// flags applies the command line.
func (l *loader) flags(flags []Flag) {
	given := map[string]bool{} // names of agents that came from flags
	for _, f := range flags {
		if f.Key != "agents" {
			l.origins[f.Key] = origin{name: f.Name}
			if r := setScalar(&l.config, f.Key, f.Value, true); r != nil {
				l.faults = append(l.faults, r.fault(f.Name, f.Key, f.Value))
			}
			continue
		}
		a, err := ParseAgentFlag(f.Value)
		if faults, ok := errors.AsType[Faults](err); ok {
			l.faults = append(l.faults, faults...)
			continue
		}
		i := slices.IndexFunc(l.config.Agents, func(b Agent) bool { return b.Name == a.Name })
		if i >= 0 && !given[a.Name] {
			l.config.Agents[i] = a
		} else {
			i = len(l.config.Agents)
			l.config.Agents = append(l.config.Agents, a)
		}
		given[a.Name] = true
		l.forget(item("agents", i))
		l.origins[item("agents", i)] = origin{name: f.Name}
	}
}

// forget drops the origins of what stands at key.
func (l *loader) forget(key string) {
	for k := range l.origins {
		if within(k, key) {
			delete(l.origins, k)
		}
	}
}

// within reports whether key is at or below top.
func within(key, top string) bool {
	rest, ok := strings.CutPrefix(key, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// validate adds the faults of the configuration as a whole, with their places.
// A key that has a fault already gets no second one: its value is not the one
// that was asked for.
func (l *loader) validate() {
	before := l.faults
	for _, f := range l.config.faults() {
		if slices.ContainsFunc(before, func(b Fault) bool { return b.Key != "" && within(f.Key, b.Key) }) {
			continue
		}
		key := f.Key
		o, found := l.origins[key]
		if found && o.written != "" && f.Value != "" {
			f = newFault("", f.Key, o.written, f.Problem, f.Hint)
		}
		for ; !found && key != ""; o, found = l.origins[key] {
			key = outer(key)
		}
		f.File, f.Line, f.Column = o.name, o.line, o.column
		l.faults = append(l.faults, f)
	}
}
