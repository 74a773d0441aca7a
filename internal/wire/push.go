package wire

import "errors"

// RewritePush puts every URL in the answer to a push operation (OpPushSet,
// OpPushGet, OpPushList) through each, wherever in the result it stands: 0.3
// has it in a pushNotificationConfig, 1.0 in the configuration itself, either
// of them in lists. Everything else stays byte for byte; an answer in which
// each changes nothing is returned itself, the same slice, as a JSON-RPC error
// always is. It is for the bindings that speak JSON.
//
// An error means that body is not JSON; it does not quote it.
func RewritePush(b Binding, body []byte, each func(url string) string) ([]byte, error) {
	d := newDecoder(body, tolerant)
	defer d.release()
	u := urls{d: d, each: each}
	read := u.value
	if b == JSONRPC {
		read = u.envelope
	}
	if err := read(); err != nil {
		_, what := describe("response", err)
		return nil, errors.New(what)
	}
	if len(u.edits) == 0 {
		return body, nil
	}
	return apply(body, u.edits), nil
}

// urls is a walk over an answer that edits URLs.
type urls struct {
	d     *decoder
	each  func(url string) string
	edits []edit
}

// envelope walks a JSON-RPC response.
func (u *urls) envelope() error {
	return u.d.members(func(name []byte) error {
		if string(name) == "result" {
			return u.value()
		}
		return u.d.skip()
	})
}

// value walks any value.
func (u *urls) value() error {
	switch u.d.next() {
	case '[':
		return u.d.elements(u.value)
	case '{':
		return u.d.members(func(name []byte) error {
			if string(name) == "url" && u.d.next() == '"' {
				return u.url()
			}
			return u.value()
		})
	default:
		return u.d.skip()
	}
}

// url reads a URL.
func (u *urls) url() error {
	at, err := u.d.value()
	if err != nil {
		return err
	}
	was, _ := unquote(at.of(u.d.src))
	if now := u.each(was); now != was {
		u.edits = append(u.edits, edit{at, quote(now)})
	}
	return nil
}
