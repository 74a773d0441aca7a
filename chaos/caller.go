package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/sse"
)

// caller calls agents through the sidecars, as a coordinator does, or an agent
// in the middle of a chain. It may be used concurrently.
type caller struct {
	sidecars []*sidecar
	tally    *tally
	ledger   *ledger
	client   *http.Client
	patience time.Duration // for one answer: longer than anything may take, or it would be hanging up

	mu   sync.Mutex // guards rand
	rand *rand.Rand
}

func newCaller(sidecars []*sidecar, t *tally, l *ledger, r *rand.Rand) *caller {
	return &caller{
		sidecars: sidecars, tally: t, ledger: l, rand: r, patience: 2 * time.Minute,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
	}
}

// pick makes a random choice.
func (c *caller) pick(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// outcome is how one call ended, for its caller.
type outcome struct {
	result result
	reason string // of a refusal, or what the agent said
	task   string // once it is known
	state  string // of the task, when it was heard of last
	began  bool   // the agent was heard of
}

// result is what the tally counts.
type result string

const (
	answered    result = "answered"           // the task is completed
	canceled    result = "canceled"           // the task is, because somebody asked for it
	waits       result = "waits for an input" // the agent asks back
	works       result = "goes on"            // the agent works on a task that nobody waits for
	refused     result = "refused"            // by the sidecar
	broken      result = "broken off"         // the connection to the sidecar broke
	unconnected result = "no connection"      // the sidecar was not there
	hungUp      result = "caller hung up"
	failed      result = "agent's error"
)

const (
	attempts  = 4               // of one message whose answer broke off
	searching = 6 * time.Second // for so long a caller looks for a sidecar that is there and has its store
)

// call has j done for the caller that has the context from, in the conversation
// root, trying a message again that broke off. It returns the last outcome.
func (c *caller) call(ctx context.Context, root, from, user string, j job) outcome {
	l := letter{Job: j, Message: uuid.NewString(), Root: root, Caller: from, User: user}
	o := c.deliver(ctx, l, "")
	switch {
	case j.Mute:
	case o.result == works:
		o = c.follow(ctx, l, o)
	case o.result == waits:
		l.Message, l.Job.Way = uuid.NewString(), send
		o = c.deliver(ctx, l, o.task)
	}
	return o
}

// deliver sends a message, to a task if one is named, and again while there is hope.
func (c *caller) deliver(ctx context.Context, l letter, task string) (o outcome) {
	began := time.Now()
	for n := 0; ; {
		o = c.attempt(ctx, l, task, c.sidecars[c.pick(len(c.sidecars))])
		switch {
		case (o.result == unconnected || o.reason == "STORE_UNAVAILABLE") && time.Since(began) < searching:
		case n < attempts-1 && o.result == broken && c.pick(3) > 0:
			n++
		default:
			return o
		}
		if !pause(ctx, time.Duration(50+c.pick(400))*time.Millisecond) {
			return o
		}
	}
}

// attempt makes one call through one sidecar, and enters it into the tally.
func (c *caller) attempt(ctx context.Context, l letter, task string, through *sidecar) (o outcome) {
	outbound, by := through.at()
	l.By = by
	began := time.Now()
	defer func() { c.tally.enter(l, o, began) }()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	heard := make(chan string, 1) // the task, once
	if l.Job.Leave > 0 {
		go c.leave(ctx, cancel, l, heard)
	}
	if l.Job.Cancel {
		go c.cancelTask(ctx, l, heard)
	}
	body, err := request(l, task)
	if err != nil {
		return outcome{result: failed, reason: err.Error()}
	}
	resp, err := c.post(ctx, outbound, l, body)
	if err != nil {
		return outcome{result: c.fault(ctx, l, err), reason: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	err = read(resp, func(a answer) {
		a.tell(&o)
		if o.task != "" && !o.began {
			o.began = true
			heard <- o.task
		}
	})
	if err != nil {
		return outcome{result: c.fault(ctx, l, err), reason: err.Error(), task: o.task, began: o.began}
	}
	o.conclude(l.Job.Way)
	return o
}

// fault says which kind of failure the end of a call is.
func (c *caller) fault(ctx context.Context, l letter, err error) result {
	switch {
	case ctx.Err() != nil && l.Job.Leave > 0:
		return hungUp
	case errors.Is(err, syscall.ECONNREFUSED):
		return unconnected
	default:
		return broken
	}
}

// leave has the caller go away after a while. Unless it has heard of a task by
// then, nobody can tell any more what becomes of the call.
func (c *caller) leave(ctx context.Context, cancel context.CancelFunc, l letter, heard <-chan string) {
	if !pause(ctx, l.Job.Leave) {
		return
	}
	select {
	case <-heard:
	default:
		c.ledger.leaving(l.Message)
	}
	cancel()
}

// cancelTask cancels the task as soon as it is known.
func (c *caller) cancelTask(ctx context.Context, l letter, heard <-chan string) {
	select {
	case task := <-heard:
		c.ask(ctx, l, "CancelTask", task)
	case <-ctx.Done():
	}
}

// follow asks for a task until it has ended.
func (c *caller) follow(ctx context.Context, l letter, o outcome) outcome {
	until := time.Now().Add(15 * time.Second)
	for time.Now().Before(until) && pause(ctx, time.Duration(50+c.pick(250))*time.Millisecond) {
		asked, life := c.ask(ctx, l, "GetTask", o.task)
		if asked.state == "" || !a2a.TaskState(asked.state).Terminal() {
			continue
		}
		o.state = asked.state
		o.conclude(send)
		c.tally.followed(l, o, life)
		return o
	}
	return o
}

// ask calls a method about a task, through any sidecar.
func (c *caller) ask(ctx context.Context, l letter, method, task string) (o outcome, by life) {
	outbound, by := c.sidecars[c.pick(len(c.sidecars))].at()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": map[string]any{"id": task}})
	if err != nil {
		return o, by
	}
	resp, err := c.post(ctx, outbound, l, body)
	if err == nil {
		err = read(resp, func(a answer) { a.tell(&o) })
		_ = resp.Body.Close() // it has been read
	}
	c.tally.asked(method, err, o)
	return o, by
}

// request is the JSON-RPC request of a message.
func request(l letter, task string) ([]byte, error) {
	text, err := l.text()
	if err != nil {
		return nil, err
	}
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	m.ID, m.TaskID = l.Message, a2a.TaskID(task)
	params := a2a.SendMessageRequest{Message: m}
	method := "SendMessage"
	switch l.Job.Way {
	case stream:
		method = "SendStreamingMessage"
	case later:
		params.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	case send:
	}
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "id": l.Message, "method": method, "params": params})
}

// post sends a request to an agent through the sidecar at outbound.
func (c *caller) post(ctx context.Context, outbound string, l letter, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, outbound+"/agents/"+l.Job.Agent+"/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("A2A-Version", string(a2a.Version))
	h.Set("X-User-Id", l.User)
	h.Set("X-Kagent-Root-Context-Id", l.Root)
	h.Set("X-Kagent-Parent-Context-Id", l.Caller)
	return c.client.Do(req)
}

// answer is a JSON-RPC answer, or one event of a streamed one, as far as it
// matters here: the result is a task, or names one of these.
type answer struct {
	Result *struct {
		taskSeen
		Task         *taskSeen
		StatusUpdate *struct {
			TaskID string
			Status statusSeen
		}
	}
	Error *struct {
		Code    int
		Message string
		Data    []struct{ Reason string }
	}
}

type (
	taskSeen struct {
		ID     string
		Status statusSeen
	}
	statusSeen struct{ State string }
)

// The codes of JSON-RPC errors with which a sidecar refuses.
const (
	mostRefusal  = -32050
	leastRefusal = -32052
)

// tell enters what the answer says.
func (a answer) tell(o *outcome) {
	switch {
	case a.Error != nil:
		o.result, o.reason = failed, fmt.Sprintf("%d %s", a.Error.Code, a.Error.Message)
		if leastRefusal <= a.Error.Code && a.Error.Code <= mostRefusal {
			o.result, o.reason = refused, "?"
			for _, d := range a.Error.Data {
				if d.Reason != "" {
					o.reason = d.Reason
				}
			}
		}
	case a.Result == nil:
	case a.Result.Task != nil:
		o.task, o.state = a.Result.Task.ID, a.Result.Task.Status.State
	case a.Result.StatusUpdate != nil:
		o.task, o.state = a.Result.StatusUpdate.TaskID, a.Result.StatusUpdate.Status.State
	case a.Result.ID != "":
		o.task, o.state = a.Result.ID, a.Result.Status.State
	}
}

// conclude says how a call ended whose answer is whole.
func (o *outcome) conclude(how way) {
	if o.result != "" {
		return
	}
	switch a2a.TaskState(o.state) {
	case a2a.TaskStateCompleted:
		o.result = answered
	case a2a.TaskStateCanceled:
		o.result = canceled
	case a2a.TaskStateInputRequired:
		o.result = waits
	case a2a.TaskStateSubmitted, a2a.TaskStateWorking:
		o.result = works
		if how != later {
			o.result, o.reason = broken, "the answer ended before the task"
		}
	default:
		o.result, o.reason = failed, "the task is "+o.state
	}
}

const maxAnswer = 1 << 20

// read reads an answer, or the events of a streamed one as they come.
func read(resp *http.Response, each func(answer)) error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s without a type: %w", resp.Status, err)
	}
	if kind != "text/event-stream" {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return err
		}
		var a answer
		if err := json.Unmarshal(b, &a); err != nil {
			return fmt.Errorf("%s: %.200s: %w", resp.Status, b, err)
		}
		each(a)
		return nil
	}
	var bad error
	events := sse.NewScanner(maxAnswer, func(e sse.Event) {
		var a answer
		if err := json.Unmarshal(e.Data, &a); err != nil {
			bad = fmt.Errorf("event %.200s: %w", e.Data, err)
			return
		}
		each(a)
	})
	_, err = io.Copy(events, resp.Body)
	return errors.Join(err, bad)
}

// pause waits for d, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
