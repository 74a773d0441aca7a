package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// maxEdited bounds an answer that is to be edited, in bytes.
const maxEdited = 4 << 20

var errTooLong = errors.New("is too long to be edited")

// editBody replaces the body of an answer by what edit makes of it. Trailers
// stay.
func editBody(resp *http.Response, edit func(body []byte) ([]byte, error)) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEdited+1))
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if len(body) > maxEdited {
		return errTooLong
	}
	edited, err := edit(body)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // read to its end
	resp.Body = io.NopCloser(bytes.NewReader(edited))
	if same(edited, body) {
		return nil
	}
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
	if contentEncoding(resp.Header) != "" {
		return errors.New("push configurations cannot be restored: the answer is packed although nobody asked for that")
	}
	return editBody(resp, func(body []byte) ([]byte, error) {
		edited, err := x.binding.rewritePush(x.request, body, func(url string) string {
			if original, ok := x.proxy.push.original(url); ok {
				return original
			}
			return url
		})
		if err != nil {
			return body, nil // no answer that holds any, such as an error page
		}
		return edited, nil
	})
}
