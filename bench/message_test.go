package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func TestMessage(t *testing.T) {
	t.Parallel()
	m := newMessage(methodSend, "host:1", "/agents/worker/", "salt")
	other := m.clone()
	m.number(0x2a, 3)
	other.number(1, 1)
	head, body, _ := bytes.Cut(m.raw, []byte("\r\n\r\n"))
	if len(body) != bodySize || !json.Valid(body) {
		t.Errorf("body of %d bytes, valid JSON %t, want %d: %s", len(body), json.Valid(body), bodySize, body)
	}
	for _, want := range []string{
		"POST /agents/worker/ HTTP/1.1\r\n", "\r\nContent-Length: 1024",
		"\r\nX-Kagent-Root-Context-Id: rsalt0000000000000003\r\n", "\r\nX-Kagent-Parent-Context-Id: rsalt0000000000000003\r\n",
	} {
		if !strings.Contains(string(head), want) {
			t.Errorf("no %q in\n%s", want, head)
		}
	}
	// What the sidecar reads is what the generator meant.
	req, err := wire.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	if req.Op != wire.OpSend || req.MessageID != "msalt000000000000002a" || req.ContextID != "csalt0000000000000003" {
		t.Errorf("Read(message 0x2a of 3) = %v, message %s in context %s", req.Op, req.MessageID, req.ContextID)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	m := newMessage(methodSend, "h", "/", "s")
	m.number(1, 2)
	const id, sent = "ms0000000000000001", "cs0000000000000002"
	reply := func(id, context, text string) string {
		return `{"id":"` + id + `","result":{"message":{"contextId":"` + context + `","parts":[{"text":"` + text + `"}]}}}`
	}
	good := reply(id, sent, answerText)
	stream := strings.Repeat("data: "+good+"\n\n", streamEvents-1) + `data: {"state":"TASK_STATE_COMPLETED"}` + "\n\n"
	for _, tt := range []struct {
		name            string
		a               answer
		body            string
		stream, sidecar bool
		want            string // in the error; empty: none
	}{
		{name: "direct", a: answer{status: 200}, body: good},
		{name: "stream", a: answer{status: 200, first: time.Now()}, body: stream, stream: true},
		{name: "isolated", a: answer{status: 200, recorded: true}, body: reply(id, "other", answerText), sidecar: true},
		{name: "status", a: answer{status: 502}, body: good, want: "status 502"},
		{name: "another call's", a: answer{status: 200}, body: reply("ms0000000000000009", sent, answerText), want: "was answered"},
		{name: "error", a: answer{status: 200}, body: `{"id":"` + id + `","error":{"code":-32050}}`, want: "no result"},
		{name: "other words", a: answer{status: 200}, body: reply(id, sent, "?"), want: "not what the agent said"},
		{name: "stream cut", a: answer{status: 200}, body: stream[:len(stream)/2], stream: true, want: "not whole"},
		{name: "stream without end", a: answer{status: 200}, body: strings.Repeat("data: "+good+"\n\n", streamEvents), stream: true, want: "not whole"},
		{name: "no context", a: answer{status: 200}, body: reply(id, "", answerText), want: "no context"},
		{name: "not recorded", a: answer{status: 200}, body: reply(id, "other", answerText), sidecar: true, want: "did not record"},
		{name: "not isolated", a: answer{status: 200, recorded: true}, body: good, sidecar: true, want: "did not isolate"},
		{name: "changed on the way", a: answer{status: 200}, body: reply(id, "other", answerText), want: "saw context other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := m.check(tt.a, []byte(tt.body), tt.stream, tt.sidecar)
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("check() = %v, want %q", err, tt.want)
			}
		})
	}
}
