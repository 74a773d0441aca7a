package sessions_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func TestNotePushWithAMessage(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		push := wire.Push{ID: "cfg", URL: "https://user:pw@hooks.example.com:8443/a%2Fb/c?token=hunter2#frag", HasToken: true, HasScheme: true}
		run.NotePush(push)
		run.NotePush(push)
		other := push
		other.ID = ""
		run.NotePush(other)

		got := w.events("root", lineage.EventPush)
		if len(got) != 2 {
			t.Fatalf("%d push.configured events, want one for each configuration: %+v", len(got), got)
		}
		if got[0].Session != run.Lineage().Session {
			t.Errorf("event belongs to session %s, want the run's, %s", got[0].Session, run.Lineage().Session)
		}
		id := w.session(run).Runs[0].ID
		same(t, "payload", payload(t, got[0]), map[string]any{
			"run": id, "configId": "cfg", "url": "https://hooks.example.com:8443/a%2Fb/c", "token": true, "auth": true,
		})
		same(t, "payload without an id", payload(t, got[1]), map[string]any{
			"run": id, "url": "https://hooks.example.com:8443/a%2Fb/c", "token": true, "auth": true,
		})
		w.complete(run)
		run.NotePush(wire.Push{ID: "late"})
		if n := len(w.events("root", lineage.EventPush)); n != 2 {
			t.Errorf("%d events after the run's end, want still 2", n)
		}
	})
}

func TestNotePushOfATask(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, task(working))
		w.end(run, sessions.Answered)
		for range 2 { // a retry is no second configuration
			f := w.follow("")
			f.NotePush(wire.Push{ID: "cfg", URL: "http://hooks"})
			w.end(f, sessions.Answered)
		}
		got := w.events("root", lineage.EventPush)
		if len(got) != 1 || got[0].Session != run.Lineage().Session {
			t.Fatalf("events %+v, want one, of session %s", got, run.Lineage().Session)
		}
		same(t, "payload", payload(t, got[0]), map[string]any{
			"taskId": "t1", "configId": "cfg", "url": "http://hooks", "token": false, "auth": false,
		})
		w.stands(run, lineage.Active, lineage.Active, "")
		log := w.events("root")
		same(t, "projection", len(sessions.Project("root", log)), len(w.tree("root")))
	})
}

func TestNotePushKeepsNoSecret(t *testing.T) {
	t.Parallel()
	redacting := func(o *sessions.Options) { o.Content.Redact = []*regexp.Regexp{regexp.MustCompile("hunter2")} }
	inWorld(t, redacting, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		for _, u := range []string{
			"https://h/hunter2/hook", "https://h/?x=hunter2", "https://h/#hunter2", "https://hunter2@h/", "hunter2", "mailto:hunter2@h",
			"https://h/%zz/hunter2", "https://hunter2:hunter2@h/" + strings.Repeat("x", 2000), "//hunter2:x@h/",
		} {
			run.NotePush(wire.Push{ID: u, URL: u})
		}
		for _, e := range w.events("root", lineage.EventPush) {
			if strings.Contains(string(e.Payload)+e.ID, "hunter2") || len(e.Payload) > 2048 {
				t.Errorf("event %s %s keeps a secret, or too much", e.ID, e.Payload)
			}
		}
	})
}

// Replicas of one secret have one key.
func TestPushKey(t *testing.T) {
	t.Parallel()
	key := func(secret string) (got []byte) {
		inWorld(t, func(o *sessions.Options) { o.Secret = []byte(secret) }, func(t *testing.T, w *world) {
			var err error
			if got, err = w.record.PushKey(); err != nil {
				t.Fatal(err)
			}
		})
		return got
	}
	one, again, other := key("0123456789abcdef"), key("0123456789abcdef"), key("0123456789abcdeF")
	if len(one) != 32 || !bytes.Equal(one, again) || bytes.Equal(one, other) {
		t.Errorf("PushKey() = %x, %x of the same secret, %x of another", one, again, other)
	}
}
