package config

import (
	"log/slog"
	"regexp"
	"strings"
)

// Secret names a secret by the file that holds it. The secret itself never
// enters a configuration. The zero value means none.
type Secret struct {
	File string `yaml:"file"` // path; default "", none
}

// StoreURL says where the record is kept:
//
//	sqlite:PATH            a file
//	sqlite::memory:        nothing outlives the process
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	rediss://…             the same over TLS
//	redis+cluster://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]…[?tls=true]
//	redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]…/MASTER[/DB][?tls=true]
//
// A cluster needs some of its nodes, the others are found; sentinels are asked
// where MASTER is, with ?sentinelUsername=…&sentinelPassword=… if they want it,
// while USER and PASSWORD are the master's own. In all of them, characters that
// mean something in a URL are percent-encoded.
//
// It may hold passwords, so it prints, logs and marshals without one; only
// Reveal gives the whole.
type StoreURL struct{ url string }

// NewStoreURL returns url as a StoreURL. [Config.Validate] is what checks it.
func NewStoreURL(url string) StoreURL { return StoreURL{url} }

// Reveal returns the URL with its password, for the one who connects.
func (u StoreURL) Reveal() string { return u.url }

// Scheme returns the part before the first colon, such as sqlite or redis.
func (u StoreURL) Scheme() string {
	scheme, _, ok := strings.Cut(u.url, ":")
	if !ok {
		return ""
	}
	return scheme
}

// String returns the URL without its credentials.
func (u StoreURL) String() string {
	if u.Scheme() == "sqlite" {
		return u.url // a path, in which @ and : are just characters
	}
	if scheme, rest, ok := strings.Cut(u.url, ":"); ok && !strings.HasPrefix(rest, "//") {
		// Not a URL, as after a slip in typing one. It may hold a password all the same.
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			return scheme + ":" + redacted + rest[at:]
		}
	}
	return redact(u.url)
}

// GoString keeps %#v from showing what String hides.
func (u StoreURL) GoString() string { return u.String() }

// LogValue implements [slog.LogValuer]; it logs String.
func (u StoreURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText implements [encoding.TextMarshaler]; it writes String, so that a
// password does not survive a round trip.
func (u StoreURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It never fails.
func (u *StoreURL) UnmarshalText(text []byte) error {
	u.url = string(text)
	return nil
}

// Equal reports whether both name the same store with the same credentials.
func (u StoreURL) Equal(v StoreURL) bool { return u == v }

const redacted = "xxxxx"

var (
	// A password may hold an unescaped @ or /, so take the last @ there is.
	userinfo = regexp.MustCompile(`://.*@`)
	// Query parameters by which some Redis clients take credentials.
	credential = regexp.MustCompile(`(?i)([?&][^=&]*(?:pass|secret|token)[^=&]*=)[^&#]*`)
)

// redact hides the credentials of text, if it looks like a URL with some.
func redact(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	text = userinfo.ReplaceAllString(text, "://"+redacted+"@")
	return credential.ReplaceAllString(text, "${1}"+redacted)
}
