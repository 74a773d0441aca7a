package admin

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
)

// request is a request whose query parameters are read one by one. Reading a
// parameter makes its name known; fault, called after the last one, returns
// the first thing that was wrong, a name that nobody read included.
type request struct {
	*http.Request
	query url.Values
	known []string
	first error
}

func newRequest(r *http.Request) *request {
	query, err := url.ParseQuery(r.URL.RawQuery)
	req := &request{Request: r, query: query}
	if err != nil {
		req.first = adminapi.NewProblem(http.StatusBadRequest, "the query of the URL is malformed")
	}
	return req
}

func (r *request) wrong(err error) {
	if r.first == nil {
		r.first = err
	}
}

// segment returns the segment of the path that name stands for in its pattern.
// See [server.route] for why it is still escaped there.
func (r *request) segment(name string) string {
	text, err := url.PathUnescape(r.PathValue(name))
	if err != nil {
		r.wrong(adminapi.NewProblem(http.StatusBadRequest, "the path of the URL is malformed"))
	}
	return text
}

// text returns the parameter name, empty if it is not given.
func (r *request) text(name string) string {
	r.known = append(r.known, name)
	values := r.query[name]
	if len(values) > 1 {
		r.wrong(adminapi.NewProblem(http.StatusBadRequest, "%s is given %d times", name, len(values)))
	}
	return r.query.Get(name)
}

// number returns a whole number from 0, 0 if it is not given.
func (r *request) number(name string) uint64 {
	text := r.text(name)
	if !r.query.Has(name) {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 63) // a store may know signed numbers only
	if err != nil {
		r.wrong(bad(name, text, "is not a whole number from 0"))
	}
	return n
}

// offset is number for places in a list: none is so long that more than this
// could be left out of it.
func (r *request) offset(name string) int { return int(min(r.number(name), math.MaxInt32)) }

// count returns a whole number from 1, 0 if it is not given. How large it may
// be is for the view to say.
func (r *request) count(name string) int {
	text := r.text(name)
	if !r.query.Has(name) {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		r.wrong(bad(name, text, "is not a whole number from 1 to "+strconv.Itoa(adminapi.MaxPage)))
	}
	return int(n)
}

// flag returns true or false, false if it is not given.
func (r *request) flag(name string) bool {
	text := r.text(name)
	if !r.query.Has(name) {
		return false
	}
	if text != "true" && text != "false" {
		r.wrong(bad(name, text, "is not true or false"))
	}
	return text == "true"
}

// list returns the values of a parameter that may be given more than once, or
// hold several values with commas between them.
func (r *request) list(name string) []string {
	r.known = append(r.known, name)
	var all []string
	for _, v := range r.query[name] {
		all = append(all, slices.DeleteFunc(strings.Split(v, ","), func(s string) bool { return s == "" })...)
	}
	return all
}

// apart finds fault with one parameter beside any of the others.
func (r *request) apart(one string, others ...string) {
	if r.query.Has(one) && slices.ContainsFunc(others, r.query.Has) {
		r.wrong(notTogether(one, others...))
	}
}

// fault returns what is wrong with the query, nil if nothing is.
func (r *request) fault() error {
	var unknown []string
	for name := range r.query {
		if !slices.Contains(r.known, name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		r.wrong(adminapi.NewProblem(http.StatusBadRequest, "unknown query parameter %s", strings.Join(unknown, ", ")))
	}
	return r.first
}

func bad(name, value, why string) error {
	return adminapi.NewProblem(http.StatusBadRequest, "%s %q %s", name, value, why)
}

func notTogether(one string, others ...string) error {
	return adminapi.NewProblem(http.StatusBadRequest, "%s cannot stand together with %s", one, strings.Join(others, " or "))
}

// oneOf returns an error unless value is empty or one of the allowed.
func oneOf(name, value string, allowed ...string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return bad(name, value, "is not one of "+strings.Join(allowed, ", "))
}

// atMost returns an error if n is no size of a page. Zero is the default size.
func atMost(name string, n int) error {
	if n < 0 || n > adminapi.MaxPage {
		return bad(name, strconv.Itoa(n), "is not a whole number from 1 to "+strconv.Itoa(adminapi.MaxPage))
	}
	return nil
}
