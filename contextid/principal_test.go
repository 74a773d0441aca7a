package contextid_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
)

// bearer is an authorization header with a token of these claims.
func bearer(claims string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return "Bearer " + b64([]byte(`{"alg":"none"}`)) + "." + b64([]byte(claims)) + ".sig"
}

func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

func TestPrincipal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, userID, authorization, want string
	}{
		{"nothing", "", "", ""},
		{"header", "alice", "", "alice"},
		{"header wins", "alice", bearer(`{"iss":"https://id","sub":"bob"}`), "alice"},
		{"header like a token", "jwt:1:i|s", "", "user:jwt:1:i|s"},
		{"header like a header", "user:jwt:1:i|s", "", "user:user:jwt:1:i|s"},
		{"where the issuer ends", "", bearer(`{"iss":"a|b","sub":"c"}`), "jwt:3:a|b|c"},
		{"and where not", "", bearer(`{"iss":"a","sub":"b|c"}`), "jwt:1:a|b|c"},
		{"control characters", "", bearer(`{"iss":"i","sub":"a\u0000b"}`), "sha256:" + digest("jwt:1:i|a\x00b")},
		{"too long", "", bearer(`{"iss":"i","sub":"` + strings.Repeat("s", 300) + `"}`), "sha256:" + digest("jwt:1:i|"+strings.Repeat("s", 300))},
		{"token", "", bearer(`{"iss":"https://id","sub":"bob"}`), "jwt:10:https://id|bob"},
		{"no issuer", "", bearer(`{"sub":"bob"}`), "jwt:0:|bob"},
		{"no subject", "", bearer(`{"iss":"https://id"}`), ""},
		{"other claims", "", bearer(`{"sub":"bob","iss":"i","aud":["x"],"exp":1e3,"n":{"sub":"eve"}}`), "jwt:1:i|bob"},
		{"scheme in any case", "", "bEARER" + bearer(`{"iss":"i","sub":"s"}`)[6:], "jwt:1:i|s"},
		{"spaces around the token", "", "Bearer   " + bearer(`{"iss":"i","sub":"s"}`)[7:] + " ", "jwt:1:i|s"},

		{"another scheme", "", "Basic" + bearer(`{"iss":"i","sub":"s"}`)[6:], ""},
		{"no scheme", "", bearer(`{"iss":"i","sub":"s"}`)[7:], ""},
		{"opaque token", "", "Bearer abcdef", ""},
		{"no token", "", "Bearer ", ""},
		{"two parts", "", "Bearer e30.e30", ""},
		{"four parts", "", bearer(`{"iss":"i","sub":"s"}`) + ".x", ""},
		{"five parts: encrypted", "", "Bearer a.b.c.d.e", ""},
		{"padded base64", "", "Bearer e30.eyJzdWIiOiJzIn0=.x", ""},
		{"no base64", "", "Bearer e30.%%%.x", ""},
		{"no JSON", "", bearer(`sub=bob`), ""},
		{"no object", "", bearer(`["sub"]`), ""},
		{"JSON null", "", bearer(`null`), ""},
		{"JSON cut short", "", bearer(`{"iss":"i","sub":"s"`), ""},
		{"subject is no string", "", bearer(`{"iss":"i","sub":7}`), ""},
		{"issuer is no string", "", bearer(`{"iss":{},"sub":"s"}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := contextid.Principal(tt.userID, tt.authorization); got != tt.want {
				t.Errorf("Principal(%q, %q) = %q, want %q", tt.userID, tt.authorization, got, tt.want)
			}
		})
	}
}

// FuzzPrincipal: nothing that a caller sends makes it fail, the header always
// wins, and the token of known claims names them.
func FuzzPrincipal(f *testing.F) {
	f.Add("", "", "", "")
	f.Add("alice", "Bearer a.b.c", "https://id", "bob")
	f.Add("", "bearer e30.eyJzdWIiOiJzIn0.", "", "\u2028")
	f.Add("", "Bearer ..", "|", "\xff")
	f.Fuzz(func(t *testing.T, userID, authorization, issuer, subject string) {
		got := contextid.Principal(userID, authorization)
		if userID != "" && got != userID {
			t.Errorf("Principal(%q, %q) = %q, want the header", userID, authorization, got)
		}
		if again := contextid.Principal(userID, authorization); again != got {
			t.Errorf("Principal(%q, %q) = %q, then %q", userID, authorization, got, again)
		}
		claims, err := json.Marshal(map[string]string{"iss": issuer, "sub": subject})
		if err != nil {
			t.Fatal(err)
		}
		var sent map[string]string // what JSON can carry of the two
		if err := json.Unmarshal(claims, &sent); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("jwt:%d:%s|%s", len(sent["iss"]), sent["iss"], sent["sub"])
		switch {
		case sent["sub"] == "":
			want = ""
		case len(want) > 256 || strings.ContainsFunc(want, unicode.IsControl):
			want = "sha256:" + digest(want)
		}
		if got := contextid.Principal("", bearer(string(claims))); got != want {
			t.Errorf("Principal of claims %s = %q, want %q", claims, got, want)
		}
	})
}

func ExamplePrincipal() {
	fmt.Println(contextid.Principal("alice", ""))
	fmt.Println(contextid.Principal("", bearer(`{"iss":"https://issuer.example","sub":"bob"}`)))
	// Output:
	// alice
	// jwt:22:https://issuer.example|bob
}
