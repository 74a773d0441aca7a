package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// admitAhead makes a session that waits, with its place, for its first call; or
// finds the one that the same request has made.
func (b *batch) admitAhead(p *plan) (sessions.Grant, error) {
	a, t := p.a, p.tree
	if len(a.Summary) > 0 && (!json.Valid(a.Summary) || bytes.TrimSpace(a.Summary)[0] != '{') {
		return sessions.Grant{}, fmt.Errorf("%w: the summary for session %s is no JSON object", errInvalid, a.SessionID)
	}
	if err := b.findRequested(p); err != nil {
		return sessions.Grant{}, err
	}
	if s := p.session; s != nil {
		return grantOf(p, s, sessions.Grant{Retry: true}), nil
	}
	if err := b.findCaller(p); err != nil {
		return sessions.Grant{}, err
	}
	if err := b.checkCaps(p); err != nil {
		return sessions.Grant{}, err
	}
	by := origin{a.Turn, a.TraceID}
	if err := b.makeSessions(p, by); err != nil {
		return sessions.Grant{}, err
	}
	s := p.session
	if err := b.countChild(t, s, 1, 0); err != nil {
		return sessions.Grant{}, err
	}
	if len(a.Summary) > 0 {
		if err := b.log(t, s, by, lineage.EventSummary, "summary/"+s.ID, a.Summary); err != nil {
			return sessions.Grant{}, err
		}
	}
	if a.RequestID != "" {
		if err := b.point(t, keyRequest, "", a.RequestID, key{session: s.n}); err != nil {
			return sessions.Grant{}, err
		}
	}
	b.admitted(t, s, a)
	return grantOf(p, s, sessions.Grant{New: true}), nil
}

// findRequested finds the session that a request has made, and its parent.
func (b *batch) findRequested(p *plan) error {
	if p.planted || p.a.RequestID == "" {
		return nil
	}
	k, err := b.lookUp(p.tree, keyRequest, "", p.a.RequestID)
	if err != nil || k == nil {
		return err
	}
	s, err := b.session(p.tree, k.session)
	if err != nil {
		return err
	}
	p.session = s
	p.parent, err = b.session(p.tree, s.parent)
	return err
}
