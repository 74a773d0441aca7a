package contextid

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Principal tells users apart: the x-user-id header, else issuer and subject
// of a bearer JWT, else empty. The token is read, never verified: this is no
// proof of who calls, and whoever may reach the sidecar may claim any value.
func Principal(userID, authorization string) string {
	if userID != "" {
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
	return claims.Issuer + "|" + claims.Subject
}
