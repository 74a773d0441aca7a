package cardsig_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
)

// ownKey signs what no SDK would.
type ownKey struct{ *ecdsa.PrivateKey }

func newKey(t *testing.T) ownKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ownKey{k}
}

func (k ownKey) jwk(t *testing.T) string { t.Helper(); return toJWK(t, &k.PublicKey) }

// sign returns card, an object in canonical form, with a signature.
func (k ownKey) sign(t *testing.T, header, card string) string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	protected := b64([]byte(header))
	sum := sha256.Sum256([]byte(protected + "." + b64([]byte(card))))
	r, s, err := ecdsa.Sign(rand.Reader, k.PrivateKey, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	value := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return strings.TrimSuffix(card, "}") + `,"signatures":[{"protected":"` + protected + `","signature":"` + b64(value) + `"}]}`
}

func toJWK(t *testing.T, key any) string {
	t.Helper()
	b, err := jose.JSONWebKey{Key: key}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func toPEM(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	public := string(read(t, "keys", "es256.pem"))
	own := newKey(t)
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, in string
		want     int
	}{
		{"PEM", public, 1},
		{"PEMs, one a certificate", public + "\nwords between\n" + string(read(t, "keys", "es256.crt")), 2},
		{"PKCS #1", toPEM(t, "RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&big.PublicKey), nil), 1},
		{"parameters beside", toPEM(t, "EC PARAMETERS", []byte("x"), nil) + public, 1},
		{"JWK", " " + own.jwk(t) + "\n", 1},
		{"JWKS", string(read(t, "keys", "all.jwks.json")), 5},
		{"JWKS with a key for encryption", `{"keys":[` + own.jwk(t) + "," + strings.Replace(own.jwk(t), "{", `{"use":"enc",`, 1) + `]}`, 1},
	} {
		got, err := cardsig.ParseKeys([]byte(tt.in))
		if err != nil || len(got) != tt.want {
			t.Errorf("ParseKeys of %s = %d keys, %v, want %d", tt.name, len(got), err, tt.want)
		}
	}
}

func TestParseKeysRefuses(t *testing.T) {
	t.Parallel()
	const none = "no public key in it, neither as PEM nor as JWK"
	own := newKey(t)
	sec1, sec1Err := x509.MarshalECPrivateKey(own.PrivateKey)
	pkcs8, pkcs8Err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	small, smallErr := x509.ParsePKCS1PublicKey(mustDER(t, smallRSA))
	if smallErr != nil {
		t.Fatal(smallErr)
	}
	smallPKIX, smallPKIXErr := x509.MarshalPKIXPublicKey(small)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	odd, oddErr := x509.MarshalPKIXPublicKey(&p224.PublicKey)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", none},
		{"words", "words", none},
		{"empty set", `{"keys":[]}`, none},
		{"set for encryption", `{"keys":[` + strings.Replace(own.jwk(t), "{", `{"use":"enc",`, 1) + `]}`, none},
		{"private key", toPEM(t, "EC PRIVATE KEY", sec1, sec1Err), "PEM block 1: is a private key; give the public one"},
		{"private key, PKCS #8", toPEM(t, "PRIVATE KEY", pkcs8, pkcs8Err), "PEM block 1: is a private key; give the public one"},
		{"broken key", string(read(t, "keys", "es256.pem")) + toPEM(t, "PUBLIC KEY", []byte("x"), nil), "PEM block 2: asn1: "},
		{"broken certificate", toPEM(t, "CERTIFICATE", []byte("x"), nil), "PEM block 1: x509: "},
		{"small RSA", toPEM(t, "PUBLIC KEY", smallPKIX, smallPKIXErr), "PEM block 1: is an RSA key of 1024 bits; at least 2048 are asked for"},
		{"odd curve", toPEM(t, "PUBLIC KEY", odd, oddErr), "PEM block 1: is a key on P-224, a curve that no algorithm here has"},
		{"broken JSON", `{`, "reading JSON: "},
		{"no JWK", `{"a":1}`, "JWK 1: "},
		{"private JWK", toJWK(t, own.PrivateKey), "JWK 1: is a private key; give the public one"},
		{"private JWK, Ed25519", toJWK(t, ed), "JWK 1: is a private key; give the public one"},
		{"symmetric JWK", `{"keys":[` + own.jwk(t) + `,{"kty":"oct","k":"c2VjcmV0"}]}`, "JWK 2: is a symmetric key; give a public one"},
		{"alg of another type", strings.Replace(own.jwk(t), "{", `{"alg":"RS256",`, 1), `JWK 1: has alg "RS256", which is not for its type`},
	} {
		got, err := cardsig.ParseKeys([]byte(tt.in))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("ParseKeys of %s = %d keys, %v, want %s", tt.name, len(got), err, tt.want)
		}
	}
}

// smallRSA is a public key of 1024 bits, which crypto/rsa makes no longer.
const smallRSA = "MIGJAoGBAJOhnyEJIwleLWhgvBKdSFSw2BiCiEXfek6IZjRk9r4MGCqwqoIkts5lPWUNierc2CfEEh49FNkO6FJ1LaHipU+99mjqOkG9aSAv/OAoIxO9BCYG02T7g5xlR4IvoXM1CDCPF71DZ4A8y1Ltpo0wwe+9yNU1K4zJ4GBEgDc7NNO1AgMBAAE="

func mustDER(t *testing.T, b64 string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
