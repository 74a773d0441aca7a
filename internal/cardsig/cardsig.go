// Package cardsig verifies the signatures of agent cards: detached JWS
// (RFC 7515) over the card without its signatures in canonical form (RFC 8785),
// as A2A 1.0 §8.4 has it.
//
//	card ─┬─ signatures ─▶ protected header: alg, kid ─▶ key ─┐
//	      └─ the rest ─▶ payload, in each form that is signed ─┴─▶ verified, or why not
//
// It knows bytes and public keys. Where keys come from is the caller's: nothing
// is fetched, so a signature's jku is no more than a remark, and a certificate
// is a key in another wrapping, whose dates and issuer say nothing here.
//
// SDKs differ in what they sign; payload.go lists the forms that count, cover.go
// what must not be left out of them.
package cardsig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrUnsigned is the error of [Verify] for a card without signatures.
var ErrUnsigned = errors.New("is not signed")

// maxSignatures bounds how many signatures of a card are looked at: each may
// cost an attempt for each key and form.
const maxSignatures = 16

// algorithms are those that count. Of the two that would let anybody sign,
// "none" is no signature, and an HMAC's key would be the public one.
var algorithms = append([]jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}, algorithmsRSA...)

var algorithmsRSA = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}

// Verify returns nil if any signature of an agent card is valid under any of
// the keys. A signature whose kid is that of a key, or of several, is tried
// with those only.
//
// Otherwise the error says why, to be read after "the card": [ErrUnsigned], that
// the card cannot be read, or what is wrong with each signature. It names keys,
// algorithms and members, and quotes nothing else of the card.
func Verify(card []byte, keys Keys) error {
	var members map[string]any
	if err := json.Unmarshal(card, &members); err != nil {
		return fmt.Errorf("cannot be read: %w", place(err))
	}
	signatures, err := readSignatures(members)
	if err != nil {
		return err
	}
	delete(members, "signatures")
	all := forms(members)
	var faults []error
	for i, s := range signatures {
		err := s.verify(all, keys)
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("signature %d %w", i+1, err))
	}
	return &invalidError{faults}
}

// invalidError is what is wrong with each signature of a card.
type invalidError struct{ faults []error }

func (e *invalidError) Error() string {
	words := make([]string, len(e.faults))
	for i, fault := range e.faults {
		words[i] = fault.Error()
	}
	return "has no valid signature: " + strings.Join(words, "; ")
}

func (e *invalidError) Unwrap() []error { return e.faults }

// signature is an element of a card's signatures. Its unprotected header is
// left alone: nothing vouches for it.
type signature struct{ protected, value string }

func readSignatures(members map[string]any) ([]signature, error) {
	list, ok := members["signatures"].([]any)
	switch {
	case members["signatures"] == nil, ok && len(list) == 0:
		return nil, ErrUnsigned
	case !ok:
		return nil, errors.New("has signatures that are no list")
	case len(list) > maxSignatures:
		return nil, fmt.Errorf("has more than %d signatures", maxSignatures)
	}
	signatures := make([]signature, len(list))
	for i, element := range list {
		m, _ := element.(map[string]any) // reading from none gives what is no string
		protected, hasHeader := m["protected"].(string)
		value, hasValue := m["signature"].(string)
		if !hasHeader || !hasValue {
			return nil, fmt.Errorf("has a signature, %d, without protected header or value", i+1)
		}
		signatures[i] = signature{protected, value}
	}
	return signatures, nil
}

// verify returns nil if s signs the card in one of its forms by one of the keys.
func (s signature) verify(all []form, keys Keys) error {
	jws, err := jose.ParseDetached(s.protected+".."+s.value, []byte{}, algorithms)
	if unexpected, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return fmt.Errorf("has an algorithm that does not count: %.20q", unexpected.Got)
	}
	if err != nil {
		return errors.New("cannot be read")
	}
	header := jws.Signatures[0].Protected
	candidates := keys.named(header.KeyID)
	known := len(candidates) > 0
	if !known {
		candidates = keys
	}
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(k Key) bool { return !k.fits(header.Algorithm) })
	if len(candidates) == 0 {
		return fmt.Errorf("is %s, for which there is no key", header.Algorithm)
	}
	for _, f := range all {
		payload, err := f.payload()
		if err != nil {
			continue // a card without that form, such as a 0.3 card that 1.0 cannot read
		}
		for _, k := range candidates {
			if jws.DetachedVerify(payload, k.public) != nil {
				continue
			}
			if path := f.uncovered(); path != "" {
				return fmt.Errorf("is valid, but does not cover %.120q", path)
			}
			return nil
		}
	}
	if known {
		return fmt.Errorf("does not fit the card: key %.60q signed another, or nothing", header.KeyID)
	}
	return errors.New("fits the card under none of the keys: another key signed it, or the card has changed")
}

// place is err without what the card says at that place.
func place(err error) error {
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("it is not JSON, or has a member twice, at byte %d", s.ByteOffset)
	}
	return errors.New("it is not a JSON object")
}
