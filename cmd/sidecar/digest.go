package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	maxQuoted = 120 // columns of what an agent said that a digest shows
	maxID     = 13  // columns of an id where room is short
)

// said is the parts of a message or artifact, as the record keeps them.
type said struct {
	Parts []struct {
		Text string `json:"text"`
	} `json:"parts"`
}

// gist is what a digest shows of a payload, whatever the type of its event:
// one name means the same thing in all of them.
type gist struct {
	Agent     string `json:"agent"`
	Kind      string `json:"kind"`
	Isolated  bool   `json:"isolated"`
	Remote    bool   `json:"remote"`
	Reserved  bool   `json:"reserved"`
	GraceMS   int64  `json:"graceMs"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
	Limit     string `json:"limit"`
	Value     int    `json:"value"`
	Count     int    `json:"count"`
	Open      int    `json:"open"`
	TaskID    string `json:"taskId"`
	ContextID string `json:"contextId"`
	Alias     bool   `json:"alias"`
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Bytes     int    `json:"bytes"`
	Text      string `json:"text"`
	said
	Message said `json:"message"`
	Result  struct {
		Summary string `json:"summary"`
	} `json:"result"`
}

// digest returns what matters of a payload on one harmless line of at most room
// columns; 0 is no bound. What agents said comes last, in quotes, shortened:
// nothing in it reaches the terminal as more than text.
func digest(payload json.RawMessage, room int, st style) string {
	var g gist
	if err := json.Unmarshal(payload, &g); err != nil {
		// Not a payload that the sidecar writes: shown as it is.
		return fit(raw(payload, st), room, st)
	}
	ws := words(g.Agent, g.Kind, when(g.Isolated, "isolated"), when(g.Remote, "elsewhere"), when(g.Reserved, "reserved"), g.State, g.Reason)
	if g.GraceMS > 0 {
		ws = append(ws, "grace "+span(time.Duration(g.GraceMS)*time.Millisecond))
	}
	if g.Limit != "" {
		ws = append(ws, fmt.Sprintf("%s %d of %d", g.Limit, g.Count, g.Value))
	}
	if g.Open > 0 {
		ws = append(ws, plural(g.Open, "run")+" at once")
	}
	id := func(id string) string {
		if room > 0 {
			return st.squeeze(id, maxID)
		}
		return id
	}
	ws = append(ws, words(when(g.Alias, "alias"), prefixed("task ", id(g.TaskID)))...)
	if g.TaskID == "" { // a task is in one context, which its session shows
		ws = append(ws, words(prefixed("ctx ", id(g.ContextID)))...)
	}
	ws = append(ws, words(g.Name, g.MediaType)...)
	if g.MediaType != "" {
		ws = append(ws, plural(g.Bytes, "byte"))
	}
	line := clean(strings.Join(ws, " "), st.ascii)
	if text := g.text(); text != "" {
		line += when(line != "", " ") + quote(text, st)
	}
	if line == "" {
		line = raw(payload, st)
	}
	return fit(line, room, st)
}

// text is what the agents said.
func (g *gist) text() string {
	var texts []string
	for _, s := range []said{g.said, g.Message} {
		for _, p := range s.Parts {
			texts = append(texts, words(p.Text)...)
		}
	}
	if len(texts) == 0 {
		texts = words(g.Text, g.Result.Summary)
	}
	return strings.Join(texts, " ")
}

// quote quotes the beginning of text. It is cut before it is quoted, so that no
// escape is cut in two.
func quote(text string, st style) string {
	text = st.cut(strings.ToValidUTF8(text, "\ufffd"), maxQuoted)
	if st.ascii {
		return strconv.QuoteToASCII(text)
	}
	return strconv.Quote(text)
}

func fit(line string, room int, st style) string {
	if room > 0 {
		return st.cut(line, room)
	}
	return line
}

// raw returns the beginning of a payload, JSON without blanks.
func raw(payload []byte, st style) string {
	text := string(payload)
	var b bytes.Buffer
	if json.Compact(&b, payload) == nil {
		text = b.String()
	}
	return clean(st.cut(text, maxQuoted), st.ascii)
}
