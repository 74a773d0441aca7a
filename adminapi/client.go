package adminapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

const (
	// maxAnswer bounds one answer: a page of events whose contents are kept in
	// full is the largest there is.
	maxAnswer = 256 << 20
	// maxProblem bounds the body of an answer that is no success.
	maxProblem = 64 << 10
)

// Client asks a sidecar's admin API. It may be used concurrently.
//
// An answer that is no success is a *[Problem]; any other error means that
// there was no answer, or none that an admin API gives.
type Client struct {
	base  *url.URL // without a slash at the end
	token string
	http  *http.Client
}

// New returns a client of the admin API at baseURL, such as
// http://127.0.0.1:8402. An empty token sends none; a nil client is
// [http.DefaultClient].
func New(baseURL, token string, client *http.Client) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the admin API: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the address of the admin API, %q, is not of the form http://HOST:PORT", baseURL)
	}
	if base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, errors.New("the address of the admin API must have no user, query or fragment")
	}
	if client == nil {
		client = http.DefaultClient
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	return &Client{base: base, token: token, http: client}, nil
}

// Trees lists trees, newest first.
func (c *Client) Trees(ctx context.Context, q TreesQuery) (TreePage, error) {
	v := url.Values{}
	set(v, "state", q.State)
	set(v, "agent", q.Agent)
	set(v, "q", q.Text)
	setNumber(v, "limit", q.Limit)
	set(v, "cursor", q.Cursor)
	return get[TreePage](ctx, c, v, "trees")
}

// Tree returns the tree with the root context id root and all its sessions,
// flat. It reads them page by page; see [ReadTree].
func (c *Client) Tree(ctx context.Context, root string) (TreeView, error) {
	return ReadTree(ctx, c.TreePart, root, 0)
}

// TreePart returns a page of the sessions of the tree root, flat.
func (c *Client) TreePart(ctx context.Context, root string, q SessionsQuery) (TreeView, error) {
	v := url.Values{}
	setNumber(v, "after", q.After)
	setNumber(v, "limit", q.Limit)
	return get[TreeView](ctx, c, v, "trees", root)
}

// Events returns a page of the log of the tree root.
func (c *Client) Events(ctx context.Context, root string, q EventsQuery) (EventPage, error) {
	v := url.Values{}
	set(v, "as", q.As)
	setNumber(v, "after", q.After)
	setNumber(v, "limit", q.Limit)
	setNumber(v, "lastN", q.LastN)
	for _, t := range q.Types {
		v.Add("type", t)
	}
	set(v, "session", q.Session)
	set(v, "acrossTurns", q.AcrossTurns)
	return get[EventPage](ctx, c, v, "trees", root, "events")
}

// Session returns the session with the given id.
func (c *Client) Session(ctx context.Context, id string) (lineage.Session, error) {
	return get[lineage.Session](ctx, c, nil, "sessions", id)
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

func setNumber[N int | uint64](v url.Values, name string, n N) {
	if n != 0 {
		v.Set(name, fmt.Sprint(n))
	}
}

// get asks for the resource at path, whose segments may hold any character.
func get[T any](ctx context.Context, c *Client, query url.Values, path ...string) (T, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(query, path).String(), nil)
	if err != nil {
		var none T
		return none, fmt.Errorf("asking the admin API: %w", err)
	}
	answer, _, err := do[T](c, req)
	return answer, err
}

// post sends body, as JSON, to the resource at path, and returns the status
// beside the answer: there is more than one for success.
func post[T any](ctx context.Context, c *Client, header http.Header, body any, path ...string) (answer T, status int, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return answer, 0, fmt.Errorf("encoding a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address(nil, path).String(), bytes.NewReader(b))
	if err != nil {
		return answer, 0, fmt.Errorf("asking the admin API: %w", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	return do[T](c, req)
}

// do sends a request and reads the answer.
func do[T any](c *Client, req *http.Request) (answer T, status int, err error) {
	req.Header.Set("Accept", "application/json, application/problem+json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the whole URL, which the asker knows
		}
		return answer, 0, fmt.Errorf("asking the admin API at %s: %w", c.base, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written; what was read has been judged
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return answer, resp.StatusCode, problem(resp)
	}
	if !isJSON(resp.Header, "application/json") {
		return answer, resp.StatusCode, fmt.Errorf("reading the answer of %s: not JSON: it is not an admin API", c.base)
	}
	body := &io.LimitedReader{R: resp.Body, N: maxAnswer + 1}
	err = json.NewDecoder(body).Decode(&answer)
	switch {
	case body.N <= 0:
		return answer, resp.StatusCode, fmt.Errorf("reading the answer of the admin API: longer than %d bytes", maxAnswer)
	case err != nil:
		return answer, resp.StatusCode, fmt.Errorf("reading the answer of the admin API: %w", err)
	}
	return answer, resp.StatusCode, nil
}

// address spells segments so that they arrive as they are: a slash in a root
// context id is not a separator, and ".." is not the segment before.
func (c *Client) address(query url.Values, path []string) *url.URL {
	u := *c.base
	plain, escaped := u.Path+"/api/v1", u.EscapedPath()+"/api/v1"
	for _, segment := range path {
		plain += "/" + segment
		spelled := url.PathEscape(segment)
		if segment == "." || segment == ".." {
			spelled = strings.ReplaceAll(segment, ".", "%2E")
		}
		escaped += "/" + spelled
	}
	u.Path, u.RawPath, u.RawQuery = plain, escaped, query.Encode()
	return &u
}

// problem reads an answer that is no success. One that is no problem document
// (a proxy in between may have written it) becomes one.
func problem(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	p := &Problem{}
	if err != nil || !isJSON(resp.Header, "application/problem+json") || json.Unmarshal(bytes.TrimSpace(body), p) != nil {
		p = NewProblem(resp.StatusCode, "the answer was %s, without a reason", strconv.Quote(resp.Status))
	}
	p.Status = resp.StatusCode // the one that counts
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	return p
}

func isJSON(h http.Header, want string) bool {
	got, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && got == want
}
