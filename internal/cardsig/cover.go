package cardsig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// words03 are what 0.3 says in words that 1.0 does not have. SDKs that serve
// both versions in one card derive the rest from the members of 1.0.
var words03 = []string{
	"url", "preferredTransport", "additionalInterfaces", "transport", "protocolVersion", "0.3", "0.3.0",
	"supportsAuthenticatedExtendedCard", "stateTransitionHistory",
	"security", "type", "in", "apiKey", "http", "oauth2", "openIdConnect", "mutualTLS",
}

// uncovered10 returns the path of something in a card that a signature of what 1.0
// knows does not cover, empty if there is nothing of interest: what it does not
// cover may hold neither a URL nor a word that is not in what it does cover.
// Otherwise whoever stands between the agent and its caller could add a place
// to send a token to, for those who read 0.3.
func uncovered10(card map[string]any) string {
	known, err := known10(card)
	if err != nil {
		return "anything" // cannot be: the form was made of it
	}
	said := map[string]bool{}
	for _, word := range words03 {
		said[word] = true
	}
	collect(known, said)
	return unsaid(cleaned(card), "", said)
}

// collect adds every string in v to said, names of members included.
func collect(v any, said map[string]bool) {
	switch v := v.(type) {
	case string:
		said[v] = true
	case []any:
		for _, element := range v {
			collect(element, said)
		}
	case map[string]any:
		for name, value := range v {
			said[name] = true
			collect(value, said)
		}
	}
}

// unsaid returns the path of the first string in v, which is at path, that is
// not in said, empty if there is none. Members with a default of protobuf say
// nothing.
func unsaid(v any, path string, said map[string]bool) string {
	switch v := v.(type) {
	case string:
		if !said[v] {
			return path
		}
	case []any:
		for i, element := range v {
			if found := unsaid(element, fmt.Sprintf("%s[%d]", path, i), said); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member := strings.TrimPrefix(path+"."+name, ".")
			if v[name] == false || v[name] == 0.0 {
				continue
			}
			if !said[name] {
				return member
			}
			if found := unsaid(v[name], member, said); found != "" {
				return found
			}
		}
	}
	return ""
}
