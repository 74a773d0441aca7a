package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	methodSend   = "SendMessage"
	methodStream = "SendStreamingMessage"

	bodySize = 1024

	// digits is the length of a number in a message: fixed, so that messages
	// of one kind differ in nothing else.
	digits = 16

	callMark = "CALLCALLCALLCALL"
	rootMark = "ROOTROOTROOTROOT"
)

// message is a whole HTTP request that becomes a new call by writing the number
// of the call and that of its conversation over the old ones.
type message struct {
	method string
	raw    []byte
	calls  []int  // where the call's number stands
	roots  []int  // where the conversation's number stands
	id     string // of the message, before the number
	ctx    string // of the context sent, likewise
}

// newMessage makes a call of method for the target at host. The salt keeps the
// ids of this run apart from those of any other.
func newMessage(method, host, path, salt string) *message {
	m := &message{method: method, id: "m" + salt, ctx: "c" + salt}
	head := `{"jsonrpc":"2.0","id":"` + m.id + callMark + `","method":"` + method + `","params":{"message":{"messageId":"` + m.id + callMark +
		`","contextId":"` + m.ctx + rootMark + `","role":"ROLE_USER","parts":[{"text":"`
	tail := `"}]}}}`
	body := head + strings.Repeat("What do they want? ", bodySize)[:bodySize-len(head)-len(tail)] + tail
	m.raw = []byte("POST " + path + " HTTP/1.1\r\nHost: " + host +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nA2A-Version: 1.0" +
		"\r\nX-Kagent-Root-Context-Id: r" + salt + rootMark + "\r\nX-Kagent-Parent-Context-Id: r" + salt + rootMark +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	m.calls, m.roots = places(m.raw, callMark), places(m.raw, rootMark)
	return m
}

func places(raw []byte, mark string) []int {
	var at []int
	for i := 0; ; {
		j := bytes.Index(raw[i:], []byte(mark))
		if j < 0 {
			return at
		}
		at = append(at, i+j)
		i += j + len(mark)
	}
}

// clone returns a copy for another goroutine.
func (m *message) clone() *message {
	c := *m
	c.raw = bytes.Clone(m.raw)
	return &c
}

// number makes m the n-th call, in the root-th conversation.
func (m *message) number(n, root uint64) {
	var text [digits]byte
	write := func(v uint64, at []int) {
		for i := len(text) - 1; i >= 0; i-- {
			text[i] = "0123456789abcdef"[v&0xf]
			v >>= 4
		}
		for _, i := range at {
			copy(m.raw[i:], text[:])
		}
	}
	write(n, m.calls)
	write(root, m.roots)
}

// check says what is wrong with an answer to m: with what the agent said, or
// with what the sidecar, if one is to be on the way, did to the ids.
func (m *message) check(a answer, body []byte, stream, viaSidecar bool) error {
	id := m.id + string(m.raw[m.calls[0]:m.calls[0]+digits])
	sent := m.ctx + string(m.raw[m.roots[0]:m.roots[0]+digits])
	seen := field(body, `"contextId":"`)
	switch {
	case a.status != http.StatusOK:
		return fmt.Errorf("status %d: %.300s", a.status, body)
	case field(body, `"id":"`) != id:
		return fmt.Errorf("call %s was answered: %.300s", id, body)
	case !bytes.Contains(body, []byte(`"result":{`)):
		return fmt.Errorf("no result: %.300s", body)
	case stream && (bytes.Count(body, blankLine) != streamEvents || !bytes.Contains(body, []byte("COMPLETED"))):
		return fmt.Errorf("stream of %d events is not whole: %.300s", bytes.Count(body, blankLine), body)
	case !stream && !bytes.Contains(body, []byte(answerText)):
		return fmt.Errorf("not what the agent said: %.300s", body)
	case seen == "":
		return fmt.Errorf("no context: %.300s", body)
	case viaSidecar && !a.recorded:
		return errors.New("the sidecar did not record the call (no " + sessionHeader + ")")
	case viaSidecar && seen == sent:
		return errors.New("the sidecar did not isolate the call: the agent saw the caller's context")
	case !viaSidecar && seen != sent:
		return fmt.Errorf("the agent saw context %s, not %s", seen, sent)
	}
	return nil
}
