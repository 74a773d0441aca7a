package wire

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
)

// RESTCall is what of an HTTP+JSON request stands outside of its body.
type RESTCall struct {
	Verb  string
	Path  string // escaped, as in the request line
	Query string // raw
	// Version is what the request's A2A-Version says: 0.3 if it has none.
	Version Version
}

// ReadREST reads an HTTP+JSON request, by the rules of Read. What the path and
// the query name is in the Request, and so is what the body names; where both
// name a task, it must be the same one. A body that its verb has no use for is
// not read. One that is a JSON-RPC request is refused, whatever else it is:
// agents that serve both bindings may look at the body first.
//
// The request refers to body, which must not be changed while it is in use.
// The error, if any, is an *Error. It is Foreign if MatchREST knows no such
// call.
func ReadREST(q RESTCall, body []byte) (*Request, error) {
	route, ok := MatchREST(q.Verb, q.Path)
	if !ok {
		return nil, &Error{Code: CodeInvalid, Version: q.Version, Foreign: true, What: "path is not one of A2A"}
	}
	j := &jsonBody{src: body}
	r := &Request{Method: route.Method, Binding: REST, Version: q.Version, Op: route.Op, TaskID: route.TaskID, body: j}
	code, what := r.readREST(q, j)
	if what != "" {
		return nil, &Error{Code: code, Op: r.Op, Version: r.Version, What: what}
	}
	return r, nil
}

// readREST fills in what the call says, and returns what is wrong with it, or
// "".
func (r *Request) readREST(q RESTCall, j *jsonBody) (code int, what string) {
	if r.TaskID != "" {
		if err := CheckID("task id in the path", r.TaskID); err != nil {
			return CodeInvalid, err.Error()
		}
		// To some agents it is part of the id, to others the end of it. Escaped it
		// is the former to all.
		if strings.Contains(q.Path, ";") && strings.Contains(r.TaskID, ";") {
			return CodeInvalid, "task id in the path contains a semicolon"
		}
	}
	if r.Op == OpList {
		r.ContextID, what = queried(q.Query, "contextId", "context_id")
		return CodeInvalid, what
	}
	carries := r.Op.Sends() || r.Op == OpPushSet
	if text := bytes.TrimSpace(j.src); q.Verb != "POST" || !carries && (len(text) == 0 || string(text) == "null") {
		return 0, "" // a2a-go sends null where it has nothing to say
	}
	var m members
	if code, what = m.whole(j.src, restShape); what != "" {
		return code, what
	}
	if m.rpc {
		return CodeInvalid, "body is a JSON-RPC request, but the path is one of HTTP+JSON"
	}
	if m.paramsFault != "" {
		return CodeInvalid, m.paramsFault
	}
	if r.Op.Sends() {
		return CodeInvalid, m.send(r, j)
	}
	if what = m.sameTask(r, j); what == "" && r.Op == OpPushSet {
		what = m.pushSet(r, j)
	}
	return CodeInvalid, what
}

// sameTask returns a fault if the body names another task than the path does:
// some agents go by the one, some by the other.
func (m *members) sameTask(r *Request, j *jsonBody) (fault string) {
	named := fieldParamsID
	if r.Op == OpPushSet { // its id is the configuration's
		named = fieldParamsTask
	}
	if id, ok := unquote(m.raw(j.src, named)); ok && id != "" && id != r.TaskID {
		return "body names another task than the path"
	}
	// The ProtoJSON of 0.3 has tasks/ID, with more behind it or not.
	resource, _ := unquote(m.raw(j.src, fieldResource))
	if id, ok := strings.CutPrefix(resource, "tasks/"); ok {
		if id != r.TaskID && !strings.HasPrefix(id, r.TaskID+"/") {
			return "body names another task than the path"
		}
	}
	return ""
}

// queried returns the id that a query names by one of those keys. If one
// occurs again that is a fault: of two values, some agents take the first,
// others the last.
func queried(query string, names ...string) (id, fault string) {
	met := false
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name = unescaped(name, url.QueryUnescape); !slices.Contains(names, name) {
			continue
		}
		if met {
			return "", names[0] + " is in the query more than once"
		}
		met = true
		id = unescaped(value, url.QueryUnescape)
	}
	if id != "" {
		if what := idFault(id); what != "" {
			return "", names[0] + " in the query " + what
		}
	}
	return id, ""
}

// unescaped returns s without its percent escapes; s itself if they are not
// valid, which is how lenient agents read it.
func unescaped(s string, unescape func(string) (string, error)) string {
	if plain, err := unescape(s); err == nil {
		return plain
	}
	return s
}
