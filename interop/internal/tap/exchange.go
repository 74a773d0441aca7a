package tap

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/net/http2"
)

// Exchange is a request and what came back.
type Exchange struct {
	Seq       int64  // orders the exchanges of one tap by when they began
	Proto     string // HTTP/1.1 or HTTP/2.0
	Method    string
	Target    string // path and query as sent
	Authority string
	Request   Half
	Status    int // 0: no answer came
	Response  Half
}

// Half is one direction of an exchange. Framing (chunks, HTTP/2 frames) is
// undone; everything else is as sent.
type Half struct {
	Header    http.Header
	Body      []byte
	Trailer   http.Header
	Truncated bool // it broke off
}

// Parse returns the exchanges of connections, in the order in which they began.
// One that broke off is returned as far as it came. The error is that of a
// connection which holds something else than HTTP in the clear.
func Parse(conns []Conn) ([]Exchange, error) {
	var all []Exchange
	var errs []error
	for _, c := range conns {
		parse := parse1
		switch preface := []byte(http2.ClientPreface); {
		case len(c.Sent.Bytes) == 0: // somebody only looked whether anybody is there
			continue
		case bytes.HasPrefix(c.Sent.Bytes, preface):
			parse = parse2
		}
		exchanges, err := parse(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading a recorded connection: %w", err))
		}
		all = append(all, exchanges...)
	}
	slices.SortStableFunc(all, func(a, b Exchange) int { return int(a.Seq - b.Seq) })
	return all, errors.Join(errs...)
}
