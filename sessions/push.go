package sessions

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// pushKeyInfo tells the key of PushKey from all others of the same secret
// (RFC 5869 §3.2).
const pushKeyInfo = "a2a-sidecar push relay 1"

// PushKey returns the key, of 32 bytes, that seals what the URLs of relayed push
// notifications mean. It is derived from the key of context ids, so it is the
// same for all replicas and survives restarts.
func (r *Record) PushKey() ([]byte, error) {
	key, err := hkdf.Key(sha256.New, r.secret, nil, pushKeyInfo, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of push URLs: %w", err)
	}
	return key, nil
}

// pushPayload is the payload of push.configured.
type pushPayload struct {
	Run      string `json:"run,omitempty"`    // whose message carried the configuration
	TaskID   string `json:"taskId,omitempty"` // instead: whose configuration was set
	ConfigID string `json:"configId,omitempty"`
	URL      string `json:"url"`
	Token    bool   `json:"token"`
	Auth     bool   `json:"auth"`
}

// NotePush takes note that the call tells the agent where to send push
// notifications: p is what it carried before anything was put in the URL's
// place. What gives access stays out: of the URL only scheme, host and path are
// kept. The same configuration is noted once for a task, or for a run without one.
func (r *Run) NotePush(p wire.Push) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	c := r.content()
	payload := pushPayload{
		Run: r.id, TaskID: r.task, ConfigID: c.label(safeID(p.ID)), URL: c.label(shownURL(p.URL)),
		Token: p.HasToken, Auth: p.HasScheme,
	}
	// Over what is kept and no more: a digest of what is left out could be guessed at.
	h := sha256.New()
	for _, part := range []string{payload.ConfigID, payload.URL, fmt.Sprint(payload.Token, payload.Auth)} {
		h.Write([]byte(part + "\x00"))
	}
	r.draft("push/"+r.agent.Name+"/"+r.topic()+"/"+hex.EncodeToString(h.Sum(nil)[:8]), lineage.EventPush, payload)
	r.post() // the answer may be long in coming
}

// shownURL is a URL without what may give access: credentials, query and
// fragment. Of what is no absolute URL nothing is shown.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
