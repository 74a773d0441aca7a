package wire

import (
	"net/url"
	"strings"
)

// Route is what the verb and the path of an HTTP+JSON request say.
type Route struct {
	Op Op
	// Method is the verb and the path as the specification has it, such as
	// "GET /tasks/{id}".
	Method string
	// TaskID is the task that the path names, unescaped; empty if it names
	// none. It has been through no CheckID.
	TaskID string
}

// route is a call of HTTP+JSON.
type route struct {
	op      Op
	verb    string
	pattern []string // the last segments of its path
	method  string
}

// taskHole is how the segment of a pattern starts that names a task.
const taskHole = "{id}"

// routes are the calls of both versions (0.3 §3.5.6 and its proto, 1.0 §11.3),
// those before others that would match too. subscribe is POST in the text of
// 1.0 and GET in its proto; agents answer either.
var routes = func() (all []route) {
	for _, r := range []struct {
		op         Op
		verb, path string
	}{
		{OpPushGet, "GET", "/tasks/{id}/pushNotificationConfigs/{configId}"},
		{OpPushDelete, "DELETE", "/tasks/{id}/pushNotificationConfigs/{configId}"},
		{OpPushSet, "POST", "/tasks/{id}/pushNotificationConfigs"},
		{OpPushList, "GET", "/tasks/{id}/pushNotificationConfigs"},
		{OpCancel, "POST", "/tasks/{id}:cancel"},
		{OpSubscribe, "POST", "/tasks/{id}:subscribe"},
		{OpSubscribe, "GET", "/tasks/{id}:subscribe"},
		{OpGet, "GET", "/tasks/{id}"},
		{OpList, "GET", "/tasks"},
		{OpSend, "POST", "/message:send"},
		{OpStream, "POST", "/message:stream"},
		{OpCard, "GET", "/extendedAgentCard"},
		{OpCard, "GET", "/v1/card"},
		{OpCard, "GET", "/agent/authenticatedExtendedCard"}, // 0.2, still served
	} {
		all = append(all, route{r.op, r.verb, strings.Split(r.path[1:], "/"), r.verb + " " + r.path})
	}
	return all
}()

// MatchREST reports whether a request is a call of HTTP+JSON, and which. The
// end of the path decides: before it may stand any base path, the /v1 of 0.3,
// and a tenant.
//
// It is lenient, so that no call goes around the sidecar because its agent is:
// frameworks differ in whether they tell letters apart by case, mind a slash at
// the end, one that is escaped, or a space there, resolve dots, and leave out
// matrix parameters (";a=b" at the end of a segment).
func MatchREST(verb, escapedPath string) (Route, bool) {
	if r, ok := matchPath(verb, escapedPath); ok || !strings.Contains(escapedPath, ";") {
		return r, ok
	}
	segments := strings.Split(escapedPath, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return matchPath(verb, strings.Join(segments, "/"))
}

func matchPath(verb, escapedPath string) (Route, bool) {
	var room [8]string
	segments := clean(room[:0], escapedPath, true)
	if r, ok := match(verb, segments); ok {
		return r, true
	}
	for _, s := range segments {
		if strings.Contains(s, "/") { // some split the path only once it is unescaped
			return match(verb, clean(nil, strings.Join(segments, "/"), false))
		}
	}
	return Route{}, false
}

// clean appends the segments of a path, with dots resolved.
func clean(segments []string, path string, escaped bool) []string {
	for s := range strings.SplitSeq(path, "/") {
		if escaped {
			s = unescaped(s, url.PathUnescape)
		}
		switch {
		case s == "" || s == ".":
		case s != "..":
			segments = append(segments, s)
		case len(segments) > 0:
			segments = segments[:len(segments)-1]
		}
	}
	return segments
}

// match finds the route for a path of these segments.
func match(verb string, segments []string) (Route, bool) {
	for i := range routes {
		r := &routes[i]
		if r.verb != verb || len(segments) < len(r.pattern) {
			continue
		}
		if task, ok := r.matches(segments[len(segments)-len(r.pattern):]); ok {
			return Route{Op: r.op, Method: r.method, TaskID: task}, true
		}
	}
	return Route{}, false
}

// matches reports whether the segments fit the pattern, and the task they name.
func (r *route) matches(segments []string) (task string, ok bool) {
	for i, p := range r.pattern {
		s := segments[i]
		if p == "{configId}" {
			continue
		}
		if action, isTask := strings.CutPrefix(p, taskHole); isTask {
			if action != "" {
				s = strings.TrimRight(s, " ")
			}
			split := len(s) - len(action)
			if split < 1 || !strings.EqualFold(s[split:], action) {
				return "", false
			}
			task = s[:split]
			continue
		}
		if !strings.EqualFold(strings.TrimRight(s, " "), p) {
			return "", false
		}
	}
	return task, true
}
