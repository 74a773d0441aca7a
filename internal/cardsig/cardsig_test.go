package cardsig_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
)

func read(tb testing.TB, parts ...string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, parts...)...))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// keys reads files of testdata/keys.
func keys(tb testing.TB, names ...string) cardsig.Keys {
	tb.Helper()
	var all cardsig.Keys
	for _, name := range names {
		k, err := cardsig.ParseKeys(read(tb, "keys", name))
		if err != nil {
			tb.Fatalf("ParseKeys(%s) = %v, want no error", name, err)
		}
		all = append(all, k...)
	}
	return all
}

// card reads a file of testdata/cards.
func card(tb testing.TB, name string) string {
	tb.Helper()
	return string(read(tb, "cards", name+".json"))
}

// testdata/README.md says how these were made.
func TestVerifyCardsOfSDKs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ card, key string }{
		{"py-1.3.0-es256", "es256.pem"},
		{"py-1.3.0-es256", "es256.crt"},
		{"py-1.3.0-es256", "es256.jwk.json"},
		{"py-1.3.0-es384", "es384.pem"},
		{"py-1.3.0-es512", "es512.pem"},
		{"py-1.3.0-rs256", "rsa.pem"},
		{"py-1.3.0-eddsa", "ed25519.pem"},
		{"py-1.3.0-dual", "rsa.pem"},    // 0.3 beside 1.0; PS256, no kid
		{"py-1.3.0-two", "es256.pem"},   // two signatures, of which the second counts
		{"js-1.3.0-es256", "es256.pem"}, // unprotected header
		{"js-1.3.0-ps512", "rsa.pem"},
		{"py-0.3.26", "es256.pem"},
		{"py-0.3.26-unicode", "es256.pem"}, // signed with escapes
		{"py-0.3.26-rest", "es256.pem"},    // nothing has its default
	} {
		for _, set := range [][]string{{tt.key}, {"all.jwks.json"}, {"other.pem", tt.key}} {
			t.Run(tt.card+" by "+strings.Join(set, "+"), func(t *testing.T) {
				t.Parallel()
				if err := cardsig.Verify([]byte(card(t, tt.card)), keys(t, set...)); err != nil {
					t.Errorf("Verify = %v, want no error", err)
				}
			})
		}
		t.Run(tt.card+" by another key", func(t *testing.T) {
			t.Parallel()
			others := keys(t, "es256.pem", "es384.pem", "es512.pem", "rsa.pem", "ed25519.pem")
			if tt.card != "py-1.3.0-two" {
				others = append(others, keys(t, "other.pem")...)
			}
			var rest cardsig.Keys
			for _, k := range others {
				if cardsig.Verify([]byte(card(t, tt.card)), cardsig.Keys{k}) != nil {
					rest = append(rest, k)
				}
			}
			if len(rest) != len(others)-1 {
				t.Errorf("%d of %d keys verify the card, want 1", len(others)-len(rest), len(others))
			}
		})
	}
}

// No string, number or switch of a card can change without notice. What may is
// what says nothing.
func TestVerifyTamperedCards(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ card, old, now string }{
		{"py-1.3.0-es256", `"name":"Übersetzer`, `"name":"übersetzer`},
		{"py-1.3.0-es256", "http://agent.example:9000/rpc", "http://evil.example:9000/rpc"},
		{"py-1.3.0-es256", `"streaming":false`, `"streaming":true`},
		{"py-1.3.0-es256", `"streaming":false,`, ``},
		{"py-1.3.0-es256", `"a":1.5`, `"a":1.25`},
		{"py-1.3.0-es256", `"tags":["b","a"]`, `"tags":["a","b"]`},
		{"py-1.3.0-es256", `https://auth.example/token`, `https://auth.evil/token`},
		{"py-1.3.0-es256", `"skills":[`, `"skills":[{"id":"evil","name":"evil","description":"d","tags":["t"]},`},
		{"py-1.3.0-es256", `{"name":`, `{"evil":"x","name":`},
		{"py-1.3.0-es256", `{"name":`, `{"url":"http://evil.example/rpc","name":`},
		{"py-1.3.0-es256", `"securitySchemes":{`, `"securitySchemes":{"read":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://auth.evil/token"}}},`},
		{"py-1.3.0-es256", `"uri":`, `"extended":"evil","uri":`},
		{"py-1.3.0-dual", `"additionalInterfaces":[{"transport":"HTTP+JSON","url":"http://agent.example:9000/rest"}]`, `"additionalInterfaces":[{"transport":"HTTP+JSON","url":"http://evil.example/rest"}]`},
		{"py-1.3.0-dual", `"in":"header"`, `"in":"query"`},
		{"py-1.3.0-dual", `"supportsAuthenticatedExtendedCard":true,"url":"http://agent.example:9000/rpc"`, `"url":"http://evil.example/rpc"`},
		{"js-1.3.0-es256", `"tenant":"t"`, `"tenant":"u"`},
		{"js-1.3.0-es256", `"n":1e+23`, `"n":1e+24`},
		{"py-0.3.26", `"type":"oauth2"`, `"type":"mutualTLS"`},
		{"py-0.3.26", `"type":"oauth2"`, `"type":"evil"`},
		{"py-0.3.26", `"type":"apiKey"`, `"type":"http"`},
		{"py-0.3.26", `"preferredTransport":"JSONRPC"`, `"preferredTransport":"GRPC"`},
		{"py-0.3.26", `"protocolVersion":"0.3.0"`, `"protocolVersion":"0.2.6"`},
		{"py-0.3.26-rest", `"protocolVersion":"0.3.1",`, ``},
		{"py-0.3.26", `http://agent.example:9000/rpc`, `http://evil.example:9000/rpc`},
	} {
		t.Run(tt.card+" with "+tt.now, func(t *testing.T) {
			t.Parallel()
			in := card(t, tt.card)
			out := strings.Replace(in, tt.old, tt.now, 1)
			if out == in {
				t.Fatalf("card %s holds no %s", in, tt.old)
			}
			if err := cardsig.Verify([]byte(out), keys(t, "all.jwks.json", "rsa.pem")); err == nil {
				t.Errorf("Verify(%s) = nil, want an error", out)
			}
		})
	}
}

// Order, spacing, escapes and spelling of numbers are not what is signed.
func TestVerifyWhatDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ card, old, now string }{
		{"py-1.3.0-es256", `{"name":"Übersetzer`, ` { "name" : "\u00dcbersetzer`},
		{"py-1.3.0-es256", `"a":1.5`, `"a":15.0e-1`},
		{"py-1.3.0-es256", `"streaming":false,"pushNotifications":true`, `"pushNotifications":true,"streaming":false`},
		{"py-1.3.0-es256", `{"name"`, `{"iconUrl":"","securityRequirements2":[],"name"`},
		{"py-0.3.26", `"protocolVersion":"0.3.0",`, ``},
	} {
		in := card(t, tt.card)
		out := strings.Replace(in, tt.old, tt.now, 1)
		if out == in {
			t.Fatalf("card %s holds no %s", in, tt.old)
		}
		if err := cardsig.Verify([]byte(out), keys(t, "es256.pem")); err != nil {
			t.Errorf("Verify(%s) = %v, want no error", out, err)
		}
	}
}

func TestVerifySaysWhy(t *testing.T) {
	t.Parallel()
	py, b64 := card(t, "py-1.3.0-es256"), base64.RawURLEncoding.EncodeToString
	signed := func(protected, value string) string {
		return `{"name":"x","signatures":[{"protected":"` + protected + `","signature":"` + value + `"}]}`
	}
	for _, tt := range []struct{ name, card, keys, want string }{
		{"unsigned", `{"name":"x"}`, "es256.pem", "is not signed"},
		{"no signatures", `{"name":"x","signatures":[]}`, "es256.pem", "is not signed"},
		{"null", `{"name":"x","signatures":null}`, "es256.pem", "is not signed"},
		{"no list", `{"name":"x","signatures":{}}`, "es256.pem", "has signatures that are no list"},
		{"no header", `{"name":"x","signatures":[{"signature":"eA"}]}`, "es256.pem", "has a signature, 1, without protected header or value"},
		{"not an object", `{"name":"x","signatures":["x"]}`, "es256.pem", "has a signature, 1, without protected header or value"},
		{"too many", `{"signatures":[` + strings.Repeat("{},", 16) + `{}]}`, "es256.pem", "has more than 16 signatures"},
		{"not JSON", `{"name":secret}`, "es256.pem", "cannot be read: it is not JSON, or has a member twice, at byte 8"},
		{"twice", `{"name":"x","name":"y"}`, "es256.pem", "cannot be read: it is not JSON, or has a member twice, at byte 12"},
		{"list", `[]`, "es256.pem", "cannot be read: it is not a JSON object"},
		{"not base64", signed("=", "="), "es256.pem", "has no valid signature: signature 1 cannot be read"},
		{"header is no JSON", signed(b64([]byte(`x`)), "eA"), "es256.pem", "has no valid signature: signature 1 cannot be read"},
		{"payload in the header", signed("a.b", "c"), "es256.pem", "has no valid signature: signature 1 cannot be read"},
		{"none", signed(b64([]byte(`{"alg":"none"}`)), ""), "es256.pem", `has no valid signature: signature 1 has an algorithm that does not count: "none"`},
		{"HMAC", signed(b64([]byte(`{"alg":"HS256"}`)), "eA"), "es256.pem", `has no valid signature: signature 1 has an algorithm that does not count: "HS256"`},
		{"no algorithm", signed(b64([]byte(`{}`)), "eA"), "es256.pem", `has no valid signature: signature 1 has an algorithm that does not count: ""`},
		{"other type of key", py, "rsa.pem", "has no valid signature: signature 1 is ES256, for which there is no key"},
		{"other curve", py, "es384.pem", "has no valid signature: signature 1 is ES256, for which there is no key"},
		{"unknown key", py, "other.pem", "has no valid signature: signature 1 fits the card under none of the keys: another key signed it, or the card has changed"},
		{"changed", strings.Replace(py, "1.2.3", "1.2.4", 1), "es256.jwk.json", `has no valid signature: signature 1 does not fit the card: key "es256-1" signed another, or nothing`},
		{"two", card(t, "py-1.3.0-two"), "es384.pem", "has no valid signature: signature 1 is ES256, for which there is no key; signature 2 is ES256, for which there is no key"},
		// The SDK serves its own classes and signs the card that a client makes
		// of them, which has no schemes.
		{"JavaScript's with security schemes", card(t, "js-1.3.0-schemes"), "es256.pem", `has no valid signature: signature 1 is valid, but does not cover "securitySchemes"`},
		{"unsigned member", strings.Replace(py, "{", `{"evil":["secret"],`, 1), "es256.pem", `has no valid signature: signature 1 is valid, but does not cover "evil"`},
		{"unsigned value", strings.Replace(py, "{", `{"security":["secret"],`, 1), "es256.pem", `has no valid signature: signature 1 is valid, but does not cover "security[0]"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := cardsig.Verify([]byte(tt.card), keys(t, tt.keys))
			if err == nil || err.Error() != tt.want {
				t.Errorf("Verify(%s) = %v, want %s", tt.card, err, tt.want)
			}
			if unsigned := errors.Is(err, cardsig.ErrUnsigned); unsigned != (tt.want == "is not signed") {
				t.Errorf("Verify(%s) is ErrUnsigned: %t", tt.card, unsigned)
			}
		})
	}
	if err := cardsig.Verify([]byte(py), nil); err == nil {
		t.Error("Verify without keys = nil, want an error")
	}
}

// A key's id picks it, and a JWK's alg binds it.
func TestVerifyPicksKeys(t *testing.T) {
	t.Parallel()
	in := []byte(card(t, "py-1.3.0-es256"))
	es256 := string(read(t, "keys", "es256.jwk.json"))
	for _, tt := range []struct{ name, old, now string }{
		{"another id", `"es256-1"`, `"x"`},
		{"the alg", `"use"`, `"alg":"ES256","use"`},
	} {
		k, err := cardsig.ParseKeys([]byte(strings.Replace(es256, tt.old, tt.now, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := cardsig.Verify(in, k); err != nil {
			t.Errorf("Verify by the key with %s = %v, want no error", tt.name, err)
		}
	}
	for alg, ok := range map[string]bool{"RS256": true, "PS256": false} {
		set := strings.Replace(string(read(t, "keys", "all.jwks.json")), `"kty": "RSA"`, `"alg": "`+alg+`", "kty": "RSA"`, 1)
		k, err := cardsig.ParseKeys([]byte(set))
		if err != nil {
			t.Fatal(err)
		}
		if err := cardsig.Verify([]byte(card(t, "py-1.3.0-rs256")), k); (err == nil) != ok {
			t.Errorf("Verify of RS256 by a key for %s = %v, want success: %t", alg, err, ok)
		}
	}
	// The wrong key under the right id hides the right key under none.
	wrong := strings.ReplaceAll(string(read(t, "keys", "all.jwks.json")), `es384-1`, `es256-1`)
	wrong = strings.Replace(wrong, `"es256-1"`, `"moved"`, 1)
	k, err := cardsig.ParseKeys([]byte(wrong))
	if err != nil {
		t.Fatal(err)
	}
	if err := cardsig.Verify(in, k); err == nil {
		t.Error("Verify with the id on another key = nil, want an error")
	}
}

// A signature whose header names an extension that is not known is not valid
// (RFC 7515 §4.1.11), and one that brings its own key is not by that key.
func TestVerifyForeignHeaders(t *testing.T) {
	t.Parallel()
	mine, key := keys(t, "es256.pem"), newKey(t)
	for _, extra := range []string{`"crit":["x"],"x":1`, `"jku":"https://evil.example/keys"`, `"jwk":` + key.jwk(t)} {
		in := key.sign(t, `{"alg":"ES256",`+extra+`}`, `{"name":"x"}`)
		if err := cardsig.Verify([]byte(in), mine); err == nil {
			t.Errorf("Verify with %s = nil, want an error", extra)
		}
		own, err := cardsig.ParseKeys([]byte(key.jwk(t)))
		if err != nil {
			t.Fatal(err)
		}
		if err := cardsig.Verify([]byte(in), own); (err == nil) == strings.Contains(extra, "crit") {
			t.Errorf("Verify with %s by its own key = %v", extra, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	cards, err := filepath.Glob("testdata/cards/*.json")
	if err != nil || len(cards) < 10 {
		f.Fatalf("cards = %v, %v; want 10 or more", cards, err)
	}
	type says struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Version     string `json:"version"`
	}
	said := map[says]bool{}
	parse := func(b []byte) (s says) {
		// Unlike encoding/json, this one reads no member of another case.
		if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(false)); err != nil {
			return says{"", "", err.Error()}
		}
		return s
	}
	for _, name := range cards {
		b := read(f, "cards", filepath.Base(name))
		f.Add(b)
		said[parse(b)] = true
	}
	all := append(keys(f, "all.jwks.json"), keys(f, "rsa.pem")...)
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := cardsig.Verify(in, all); err == nil && !said[parse(in)] {
			t.Errorf("Verify(%s) = nil, and nobody signed that", strconv.Quote(string(in)))
		}
	})
}
