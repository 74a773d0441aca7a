package tap

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
)

// parse1 reads a connection of HTTP/1.1: one exchange after another.
func parse1(c Conn) ([]Exchange, error) {
	sentSource, receivedSource := bytes.NewReader(c.Sent.Bytes), bytes.NewReader(c.Received.Bytes)
	sent, received := bufio.NewReader(sentSource), bufio.NewReader(receivedSource)
	var all []Exchange
	for {
		offset := len(c.Sent.Bytes) - sentSource.Len() - sent.Buffered()
		req, err := http.ReadRequest(sent)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return all, nil
		case err != nil:
			return all, err
		}
		e := Exchange{
			Seq: c.Sent.at(offset), Proto: req.Proto, Method: req.Method, Target: req.RequestURI, Authority: req.Host,
			Request: Half{Header: req.Header},
		}
		framing(e.Request.Header, req.TransferEncoding)
		e.Request.readBody(req.Body)
		e.Request.Trailer = req.Trailer
		resp, err := answer(received, req) //nolint:bodyclose // readBody closes it
		if err != nil {                    // none, or half a header
			e.Response.Truncated = true
			return append(all, e), nil
		}
		e.Status, e.Response.Header = resp.StatusCode, resp.Header
		framing(e.Response.Header, resp.TransferEncoding)
		e.Response.readBody(resp.Body)
		e.Response.Trailer = resp.Trailer
		all = append(all, e)
		if resp.StatusCode == http.StatusSwitchingProtocols || e.Request.Truncated || e.Response.Truncated {
			return all, nil // what follows is not HTTP, or nothing
		}
	}
}

// answer reads the answer to a request, past the interim ones.
func answer(r *bufio.Reader, req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r, req)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
		_ = resp.Body.Close() // an interim answer has none
	}
}

// framing puts back what net/http takes out of a header.
func framing(h http.Header, encodings []string) {
	for _, encoding := range encodings {
		h.Add("Transfer-Encoding", encoding)
	}
}

func (h *Half) readBody(body io.ReadCloser) {
	var err error
	h.Body, err = io.ReadAll(body)
	h.Truncated = err != nil
	_ = body.Close() // read to its end, or broken
}
