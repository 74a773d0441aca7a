package cardsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// minRSA is the size of the smallest RSA key that may sign (RFC 7518 §3.3), in bits.
const minRSA = 2048

// Keys are public keys that may have signed a card. Append joins two.
type Keys []Key

// Key is one of them. Only [ParseKeys] makes keys that verify anything.
type Key struct {
	id        string // kid; empty: it has none
	algorithm string // the one that it is for; empty: any that fits its type
	public    crypto.PublicKey
}

// ParseKeys reads public keys from a file's content: PEM with any number of
// public keys (PKIX or PKCS #1) and certificates, a JWK, or a JWK set. In a
// set, keys for encryption are passed over. Content with a secret in it, a
// private key or a symmetric one, is an error: whoever verifies needs none.
func ParseKeys(data []byte) (Keys, error) {
	var (
		keys Keys
		err  error
	)
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '{' {
		keys, err = parseJWKs(text)
	} else {
		keys, err = parsePEM(data)
	}
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("no public key in it, neither as PEM nor as JWK")
	}
	return keys, nil
}

func parsePEM(data []byte) (Keys, error) {
	var keys Keys
	for n := 1; ; n++ {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return keys, nil
		}
		var (
			public crypto.PublicKey
			err    error
		)
		switch {
		case block.Type == "PUBLIC KEY":
			public, err = x509.ParsePKIXPublicKey(block.Bytes)
		case block.Type == "RSA PUBLIC KEY":
			public, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case block.Type == "CERTIFICATE":
			var certificate *x509.Certificate
			if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
				public = certificate.PublicKey
			}
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			err = errors.New("is a private key; give the public one")
		default: // parameters of a curve, say
			continue
		}
		key := Key{public: public}
		if err == nil {
			err = key.check()
		}
		if err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", n, err)
		}
		keys = append(keys, key)
	}
}

func parseJWKs(data []byte) (Keys, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if set.Keys == nil {
		set.Keys = []jsontext.Value{data}
	}
	var keys Keys
	for n, one := range set.Keys {
		var jwk jose.JSONWebKey
		if err := jwk.UnmarshalJSON(one); err != nil {
			return nil, fmt.Errorf("JWK %d: %w", n+1, err)
		}
		if jwk.Use != "" && jwk.Use != "sig" {
			continue
		}
		key := Key{id: jwk.KeyID, algorithm: jwk.Algorithm, public: jwk.Key}
		if err := key.check(); err != nil {
			return nil, fmt.Errorf("JWK %d: %w", n+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// check reports why k cannot verify anything.
func (k Key) check() error {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSA {
			return fmt.Errorf("is an RSA key of %d bits; at least %d are asked for", bits, minRSA)
		}
	case *ecdsa.PublicKey:
		if curves[public.Curve] == "" {
			return fmt.Errorf("is a key on %s, a curve that no algorithm here has", public.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	case []byte:
		return errors.New("is a symmetric key; give a public one")
	case crypto.Signer:
		return errors.New("is a private key; give the public one")
	default:
		return fmt.Errorf("is a key that verifies nothing, %T", public)
	}
	if k.algorithm != "" && !k.fits(k.algorithm) {
		return fmt.Errorf("has alg %.20q, which is not for its type", k.algorithm)
	}
	return nil
}

// curves are those of the ES algorithms (RFC 7518 §3.4).
var curves = map[elliptic.Curve]jose.SignatureAlgorithm{
	elliptic.P256(): jose.ES256, elliptic.P384(): jose.ES384, elliptic.P521(): jose.ES512,
}

// fits reports whether k may verify signatures of an algorithm.
func (k Key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return slices.Contains(algorithmsRSA, jose.SignatureAlgorithm(algorithm))
	case *ecdsa.PublicKey:
		return string(curves[public.Curve]) == algorithm
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	default:
		return false
	}
}

// named are the keys with an id, none for the empty one.
func (keys Keys) named(id string) Keys {
	var named Keys
	for _, k := range keys {
		if id != "" && k.id == id {
			named = append(named, k)
		}
	}
	return named
}
