package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// maxEdited bounds an answer that is to be edited, and any card, in bytes: as it
// comes, and unpacked.
const maxEdited = 4 << 20

// What is wrong with a body that cannot be edited: words to stand after its name.
var (
	errTooLong = fmt.Errorf("is larger than %d bytes", maxEdited)
	errCut     = errors.New("broke off") // the agent is down rather than wrong
)

// readEdited reads a body that is to be edited, as it comes.
func readEdited(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxEdited+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errCut, err)
	case len(body) > maxEdited:
		return nil, errTooLong
	default:
		return body, nil
	}
}

// plainBody returns a body unpacked: an agent may pack what it likes, whether it
// was asked to or not.
func plainBody(h http.Header, body []byte) ([]byte, error) {
	encoding := contentEncoding(h)
	if encoding == "" || len(body) == 0 {
		return body, nil
	}
	return unpackEdited(encoding, body)
}

func unpackEdited(encoding string, packed []byte) ([]byte, error) {
	plain, err := unpackAll(encoding, packed, maxEdited)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, errTooLong
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	default:
		return plain, nil
	}
}

// plainAnswer returns the body of an answer unpacked, its message included where
// the binding has its own way of packing that. What is no such message stays.
func (x *exchange) plainAnswer(h http.Header, body []byte) ([]byte, error) {
	body, err := plainBody(h, body)
	if _, ok := x.binding.(grpcBinding); !ok || err != nil {
		return body, err
	}
	packed, message, err := grpcframe.Split(body)
	if err != nil || !packed {
		return body, nil
	}
	if message, err = unpackEdited(h.Get(grpcEncoding), message); err != nil {
		return nil, err
	}
	return grpcframe.Append(nil, message), nil
}

// editAnswer replaces the body of an answer by what edit makes of it unpacked. If
// that is what edit was given, the answer stays as it came. Trailers stay.
func (x *exchange) editAnswer(resp *http.Response, edit func(plain []byte) ([]byte, error)) error {
	body, err := readEdited(resp.Body)
	if err != nil {
		return err
	}
	plain, err := x.plainAnswer(resp.Header, body)
	if err != nil {
		return err
	}
	edited, err := edit(plain)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // read to its end
	if same(edited, plain) {
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(edited))
	resp.Header.Del("Content-Encoding")
	for _, name := range stale {
		resp.Header.Del(name)
	}
	if resp.ContentLength >= 0 {
		resp.ContentLength = int64(len(edited))
		resp.Header.Set("Content-Length", strconv.Itoa(len(edited)))
	}
	return nil
}

// editsPush reports whether the answer may hold push configurations whose URLs
// were replaced on their way to the agent.
func (x *exchange) editsPush() bool {
	if x.request == nil || !x.agent.RelayPush {
		return false
	}
	switch x.request.Op {
	case wire.OpPushSet, wire.OpPushGet, wire.OpPushList:
		return true
	default:
		return false
	}
}

// restorePush gives the caller back the URLs that it set itself.
func (x *exchange) restorePush(resp *http.Response) error {
	err := x.editAnswer(resp, func(plain []byte) ([]byte, error) {
		edited, err := x.binding.rewritePush(x.request, plain, func(url string) string {
			if original, ok := x.proxy.push.original(url); ok {
				return original
			}
			return url
		})
		if err != nil {
			return plain, nil // no answer that holds any, such as an error page
		}
		return edited, nil
	})
	if err != nil {
		return fmt.Errorf("restoring push configurations: the answer %w", err)
	}
	return nil
}
