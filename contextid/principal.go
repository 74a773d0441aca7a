package contextid

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Principal tells users apart: the x-user-id header, else issuer and subject
// of a bearer JWT, else empty. The token is read, never verified: this is no
// proof of who calls, and whoever may reach the sidecar may claim any value.
func Principal(userID, authorization string) string {
	if userID != "" {
		if strings.HasPrefix(userID, fromToken) || strings.HasPrefix(userID, fromHeader) {
			return fromHeader + userID // no header may pass for a token
		}
		return userID
	}
	scheme, token, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.Subject == "" {
		return ""
	}
	// The length tells where the issuer ends: either may hold any character.
	return fit(fromToken + strconv.Itoa(len(claims.Issuer)) + ":" + claims.Issuer + "|" + claims.Subject)
}

// What principals begin with that are not a header's value as it came.
const (
	fromToken  = "jwt:"
	fromHeader = "user:"
)

// maxPrincipal bounds a principal that was read from a token, in bytes.
const maxPrincipal = 256

// fit returns a principal as it may be stored and compared: itself, or its
// digest if it is too long or holds what no id may.
func fit(principal string) string {
	if len(principal) <= maxPrincipal && utf8.ValidString(principal) && !strings.ContainsFunc(principal, unicode.IsControl) {
		return principal
	}
	sum := sha256.Sum256([]byte(principal))
	return "sha256:" + hex.EncodeToString(sum[:])
}
