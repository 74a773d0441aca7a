package admin

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
)

// maxBody bounds the body of a request. A summary of a history is the largest
// thing there is to say.
const maxBody = 1 << 20

// decode reads the body of r, a JSON object with the members of T and no
// others. No body is an empty object.
//
// The type must be named: a form on a page of another site could send JSON as
// anything else without the browser asking first.
func decode[T any](r *request) (T, error) {
	var v T
	body, err := io.ReadAll(r.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return v, adminapi.NewProblem(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", maxBody)
	}
	if err != nil {
		return v, adminapi.NewProblem(http.StatusBadRequest, "the body could not be read to its end")
	}
	if len(body) == 0 {
		return v, nil
	}
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, named := params["charset"]
	if err != nil || mediaType != "application/json" || named && !strings.EqualFold(charset, "utf-8") {
		return v, adminapi.NewProblem(http.StatusUnsupportedMediaType, "the body must be JSON, and its Content-Type application/json")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return v, adminapi.NewProblem(http.StatusUnsupportedMediaType, "the body must not be compressed")
	}
	if jsontext.Value(body).Kind() != '{' {
		return v, adminapi.NewProblem(http.StatusBadRequest, "the body is not a JSON object")
	}
	if err := json.Unmarshal(body, &v, json.RejectUnknownMembers(true)); err != nil {
		return v, adminapi.NewProblem(http.StatusBadRequest, "%s", describe(err))
	}
	return v, nil
}

// describe says what is wrong with JSON, quoting no more of it than names.
func describe(err error) string {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return "the body has the member " + member(syntax.JSONPointer) + " twice"
		}
		return "the body is not JSON: byte " + strconv.FormatInt(syntax.ByteOffset, 10) + " is wrong"
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok:
		return "the body is not what is wanted here"
	case errors.Is(err, json.ErrUnknownName):
		return "unknown member " + member(semantic.JSONPointer)
	case semantic.JSONKind == '"' && semantic.Err != nil: // a text that its type could not read
		return member(semantic.JSONPointer) + ` is not a time span such as "5m"`
	default:
		kind := semantic.JSONKind.String()
		if name := map[string]string{"{": "object", "[": "array"}[kind]; name != "" {
			kind = name
		}
		return member(semantic.JSONPointer) + " cannot be a JSON " + kind
	}
}

// member spells where something stands in a body: result.artifacts[0].bytes.
func member(at jsontext.Pointer) string {
	var b strings.Builder
	for token := range at.Tokens() {
		if _, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return strconv.Quote(b.String())
}
