package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// endpoint answers a request with something that becomes JSON, or an error
// that becomes a problem. What it returns as [created] answers with 201.
type endpoint func(ctx context.Context, r *request) (any, error)

// json is the handler of an endpoint.
func (s *server) json(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		body, err := e(r.Context(), newRequest(r))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		status := http.StatusOK
		if c, ok := body.(created); ok {
			w.Header().Set("Location", c.location)
			status, body = http.StatusCreated, c.body
		}
		s.write(w, r, status, "application/json", body)
	})
}

// route hands a request to mux, and answers for it where it has no route: an
// unknown path and a method that a path does not know are problems too.
//
// The mux sees the path as it is spelled, so that an escaped slash in a root
// context id is a character like any other, even one that is all of it, which
// [http.ServeMux] would take for the end of the path.
func (s *server) route(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spelled := new(http.Request)
		*spelled = *r
		spelled.URL = &url.URL{Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}

		h, pattern := mux.Handler(spelled)
		switch {
		case path.Clean(spelled.URL.Path) != spelled.URL.Path: // the mux would redirect
			s.fail(w, r, adminapi.NewProblem(http.StatusNotFound, "there is nothing at this path"))
		case pattern != "":
			mux.ServeHTTP(w, spelled)
		default:
			refused := &outcome{header: http.Header{}}
			h.ServeHTTP(refused, spelled)
			if refused.status == http.StatusMethodNotAllowed {
				w.Header().Set("Allow", refused.header.Get("Allow"))
				s.fail(w, r, adminapi.NewProblem(refused.status, "%s does not go with this path", r.Method))
				return
			}
			s.fail(w, r, adminapi.NewProblem(http.StatusNotFound, "there is nothing at this path"))
		}
	})
}

// outcome is a response of which only the head is of interest.
type outcome struct {
	header http.Header
	status int
}

func (o *outcome) Header() http.Header         { return o.header }
func (o *outcome) WriteHeader(status int)      { o.status = status }
func (o *outcome) Write(b []byte) (int, error) { return len(b), nil }

// fail is the one place where an error becomes an answer: the whole error goes
// to the log, the peer gets what concerns it.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem, ok := errors.AsType[*adminapi.Problem](err)
	if !ok {
		problem = refused(err)
	}
	switch {
	case problem != nil:
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		return // the caller left
	case errors.Is(err, sessions.ErrUnavailable):
		s.opts.Logger.WarnContext(r.Context(), "admin request failed", "path", r.URL.Path, "error", err)
		problem = adminapi.NewProblem(http.StatusServiceUnavailable, "the record of sessions cannot be reached; retry later")
		problem.Reason = string(lineage.StoreUnavailable)
	default:
		s.opts.Logger.ErrorContext(r.Context(), "admin request failed", "path", r.URL.Path, "error", err)
		problem = adminapi.NewProblem(http.StatusInternalServerError, "the sidecar failed to answer; its log says why")
	}
	switch problem.Status {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1") // a place comes free when a session ends
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	s.write(w, r, problem.Status, "application/problem+json", problem)
}

// write sends body as JSON.
func (s *server) write(w http.ResponseWriter, r *http.Request, status int, mediaType string, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		s.opts.Logger.ErrorContext(r.Context(), "encoding an answer failed", "path", r.URL.Path, "error", err)
		http.Error(w, "the sidecar failed to answer; its log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // fails only if the caller left, who then needs no answer
}

func (s *server) text(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // as in write
}
