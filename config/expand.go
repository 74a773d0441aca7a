package config

import (
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces each ${NAME} in text by the value of that variable. $${ stands
// for a plain ${, and any other $ for itself, as patterns need it. What a
// variable holds is not expanded again.
func expand(text string, lookupEnv func(string) (string, bool)) (string, *reject) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(escaped + "${")
			text = after
			continue
		}
		b.WriteString(before)
		name, rest, closed := strings.Cut(after, "}")
		if !closed || !variableName.MatchString(name) {
			return "", &reject{problem: "has a ${ that is not ${NAME}", hint: "write $${ for a plain ${"}
		}
		value, ok := lookupEnv(name)
		if !ok {
			return "", &reject{problem: "names the environment variable " + name + ", which is not set"}
		}
		b.WriteString(value)
		text = rest
	}
}
