package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// demoCoordinator calls sub-agents as coordinators do: with the SDK's client,
// which it makes from the agent's card, and with the id of its conversation as
// the context of every call. It knows of the sidecar only as the place where
// the agents are.
type demoCoordinator struct {
	outbound  string
	headers   lineage.Headers
	transport *http.Transport
}

func newDemoCoordinator(outbound, headerPrefix string) *demoCoordinator {
	return &demoCoordinator{outbound: outbound, headers: lineage.HeadersFor(headerPrefix), transport: &http.Transport{}}
}

func (c *demoCoordinator) close() { c.transport.CloseIdleConnections() }

// demoAnswer is what became of one call: a report, or the words of a refusal.
type demoAnswer struct {
	topic   string
	report  agents.Report
	refused string
}

// fanOut sends one message about each topic to an agent, all at once. Any end
// of a call but a report or a refusal by a cap is an error.
func (c *demoCoordinator) fanOut(ctx context.Context, agent, conversation string, tellLineage bool, topics []string) ([]demoAnswer, error) {
	httpClient := &http.Client{Transport: c.transport}
	card, err := agentcard.NewResolver(httpClient).Resolve(ctx, c.outbound+"/agents/"+agent)
	if err != nil {
		return nil, fmt.Errorf("resolving the card of %s: %w", agent, err)
	}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(httpClient))
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", agent, err)
	}
	defer func() { _ = client.Destroy() }() // it holds nothing but the HTTP client
	if tellLineage {
		ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{
			c.headers.Root: {conversation}, c.headers.Parent: {conversation},
		})
	}
	answers, errs := make([]demoAnswer, len(topics)), make([]error, len(topics))
	var wg sync.WaitGroup
	for i, topic := range topics {
		wg.Go(func() { answers[i], errs[i] = ask(ctx, client, conversation, topic) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("calling %s: %w", agent, context.Cause(ctx)) // once, not for each call
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("calling %s: %w", agent, err)
	}
	return answers, nil
}

// ask makes one call and follows its stream to the end.
func ask(ctx context.Context, client *a2aclient.Client, conversation, topic string) (demoAnswer, error) {
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(topic))
	message.ContextID = conversation
	answer := demoAnswer{topic: topic}
	var task a2a.Task
	for event, err := range client.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: message}) {
		if words, ok := refusedByCap(err); ok {
			answer.refused = words
			return answer, nil
		}
		if err != nil {
			return answer, fmt.Errorf("asking about %s: %w", topic, err)
		}
		switch e := event.(type) {
		case *a2a.TaskStatusUpdateEvent:
			task.ID, task.Status = e.TaskID, e.Status
		case *a2a.TaskArtifactUpdateEvent:
			// Whether a chunk is appended or begins an artifact does not matter for
			// finding the report in one of them.
			task.Artifacts = append(task.Artifacts, e.Artifact)
		}
	}
	if task.Status.State != a2a.TaskStateCompleted {
		return answer, fmt.Errorf("asking about %s: the task ended as %q", topic, task.Status.State)
	}
	var err error
	if answer.report, err = agents.ReportOf(&task); err != nil {
		return answer, fmt.Errorf("asking about %s: %w", topic, err)
	}
	return answer, nil
}

// refusedByCap returns the words of a refusal, as the SDK hands them to the
// coordinator. It drops the reason, but keeps which limit it was.
func refusedByCap(err error) (words string, ok bool) {
	refusal, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		return "", false
	}
	metadata, _ := refusal.ErrorInfo().Value["metadata"].(map[string]string)
	return refusal.Message, metadata["limit"] != ""
}

// demoTopicList is what the coordinator has researched.
var demoTopicList = []string{
	"tidal power", "heat pumps", "geothermal wells", "grid storage", "wind farms", "green steel",
	"night trains", "rooftop solar", "soil carbon", "district heating", "cargo bikes",
}

// demoTopics returns n topics, no two the same.
func demoTopics(n int) []string {
	topics := make([]string, n)
	for i := range topics {
		topics[i] = demoTopicList[i%len(demoTopicList)]
		if round := i / len(demoTopicList); round > 0 {
			topics[i] += " " + strconv.Itoa(round+1)
		}
	}
	return topics
}

// byTopic orders what the agents have in order of arrival, so that the demo
// prints the same every time.
func byTopic(topics, said []string) []string {
	sorted := slices.Clone(said)
	slices.SortFunc(sorted, func(a, b string) int {
		if d := slices.Index(topics, a) - slices.Index(topics, b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return sorted
}
