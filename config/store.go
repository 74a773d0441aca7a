package config

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// storeSchemes are the forms of a store URL, by their scheme.
var storeSchemes = []string{"sqlite", "redis", "rediss", "redis+cluster", "redis+sentinel"}

// storeHints show what a store URL of a scheme looks like.
var storeHints = map[string]string{
	"redis":          "such as sqlite:sidecar.db or redis://localhost:6379",
	"rediss":         "such as rediss://redis.example.com:6379",
	"redis+cluster":  "such as redis+cluster://node1:6379,node2:6379",
	"redis+sentinel": "such as redis+sentinel://sentinel1:26379,sentinel2:26379/mymaster",
}

// store checks where the record is kept, as far as that can be seen without
// connecting. What a Redis client makes of the query is for it to say.
func (k *checker) store(s StoreURL) {
	scheme, rest, _ := strings.Cut(s.Reveal(), ":")
	if !slices.Contains(storeSchemes, s.Scheme()) {
		k.require("store", s.String(), "is not a store URL of scheme "+strings.Join(storeSchemes, ", "), storeHints["redis"])
		return
	}
	if scheme == "sqlite" {
		// sqlite://x has no agreed meaning: x relative, or a host?
		if rest == "" || strings.HasPrefix(rest, "//") {
			k.add("store", s.String(), "is not sqlite:PATH or sqlite::memory:", storeHints["redis"])
		}
		return
	}
	if problem, hint := redisFault(scheme, rest); problem != "" {
		k.add("store", s.String(), problem, hint)
	}
}

const (
	notEncoded = "has a user or password that is not percent-encoded"
	encodeHint = "@ is %40, / is %2F, % is %25"
)

// redisFault returns what is wrong with rest, a store URL after its scheme and
// colon, if anything is. It quotes nothing: there may be a password anywhere.
func redisFault(scheme, rest string) (problem, hint string) {
	hint = storeHints[scheme]
	after, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return "is not a URL with a host", hint
	}
	end := len(after)
	if i := strings.IndexAny(after, "/?#"); i >= 0 {
		end = i
	}
	authority, tail := after[:end], after[end:]
	path, query, _ := strings.Cut(tail, "?")
	at := strings.LastIndex(authority, "@")
	hosts := strings.Split(authority[at+1:], ",")
	if _, err := url.Parse("redis://" + authority[:at+1] + "host"); err != nil {
		return notEncoded, encodeHint
	}
	for _, host := range hosts {
		switch problem := hostFault(host); {
		case problem != "" && strings.Contains(tail, "@"):
			return notEncoded, encodeHint // what follows it was taken for the path
		case problem != "":
			return problem, hint
		}
	}
	if tls := parameter(query, "tls"); tls != "" && tls != "true" && tls != "false" {
		return "says neither tls=true nor tls=false", ""
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	db := segments[0] == "" || isDB(segments[0])
	switch scheme {
	case "redis+cluster":
		if len(segments) > 1 || segments[0] != "" && segments[0] != "0" {
			return "names a database, and a cluster has only one", "leave it out"
		}
		return "", ""
	case "redis+sentinel":
		if segments[0] == "" {
			return "does not say which master to ask the sentinels for", hint
		}
		segments = segments[1:]
		db = len(segments) == 0 || isDB(segments[0])
	default:
		if len(hosts) > 1 {
			return "names several hosts", "write redis+cluster:// or redis+sentinel://, whichever they are"
		}
	}
	if len(segments) > 1 || !db {
		return "has a database that is not a number", hint
	}
	return "", ""
}

// hostFault returns what is wrong with one HOST[:PORT].
func hostFault(host string) string {
	u, err := url.Parse("redis://" + host)
	switch {
	case host == "" || err == nil && u.Hostname() == "":
		return "is not a URL with a host"
	case err != nil || u.Host != host:
		return "has a host or port that cannot be read"
	case u.Port() != "" && !isPort(u.Port()):
		return "has a port that is not a number from 1 to 65535"
	default:
		return ""
	}
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func isDB(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}

// parameter returns the last value of name in a URL's query.
func parameter(query, name string) string {
	values, _ := url.ParseQuery(query) // what is malformed is left out, as Redis clients do
	if all := values[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}
