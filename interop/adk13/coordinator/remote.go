package main

import (
	"fmt"

	a2av0 "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"google.golang.org/adk/agent"
	remotev0 "google.golang.org/adk/agent/remoteagent" //nolint:staticcheck // deprecated, and the one that speaks 0.3
	"google.golang.org/adk/agent/remoteagent/v2"
	"google.golang.org/adk/session"
)

const (
	remoteName        = "remote"
	remoteDescription = "The agent under test."
)

// newRemote is the remote agent as an application would configure it.
//
// There is no gRPC: from 1.7 on, ADK refuses a card of which any interface is
// not of the very origin (scheme, host, port) the card came from, and a gRPC
// server has a port of its own.
func newRemote(url, binding, version string) (agent.Agent, error) {
	transport := a2a.TransportProtocol(binding)
	var remote agent.Agent
	var err error
	switch {
	case version == "1.0" && (transport == a2a.TransportProtocolJSONRPC || transport == a2a.TransportProtocolHTTPJSON):
		remote, err = newRemoteV1(url, transport)
	case version == "0.3" && transport == a2a.TransportProtocolJSONRPC:
		remote, err = newRemoteV0(url)
	default:
		return nil, fmt.Errorf("A2A %s over %s: %w", version, binding, errUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("making the remote agent: %w", err)
	}
	return remote, nil
}

// newRemoteV1 takes ADK's defaults but for the one binding asked for: by itself
// the client would fall back to another, and the lab compare the wrong thing.
func newRemoteV1(url string, transport a2a.TransportProtocol) (agent.Agent, error) {
	option := a2aclient.WithJSONRPCTransport(nil)
	if transport == a2a.TransportProtocolHTTPJSON {
		option = a2aclient.WithRESTTransport(nil)
	}
	return remoteagent.NewA2A(remoteagent.A2AConfig{
		Name:              remoteName,
		Description:       remoteDescription,
		AgentCardProvider: remoteagent.NewAgentCardProvider(url),
		ClientProvider:    remoteagent.NewA2AClientProvider(a2aclient.NewFactory(a2aclient.WithDefaultsDisabled(), option)),
		BeforeRequestCallbacks: []remoteagent.BeforeA2ARequestCallback{
			func(ctx agent.CallbackContext, req *a2a.SendMessageRequest) (*session.Event, error) {
				if text, ok := callText(ctx); ok {
					req.Message.Parts = a2a.ContentParts{a2a.NewTextPart(text)}
				}
				return nil, nil
			},
		},
	})
}

// newRemoteV0 speaks 0.3 by the package that ADK has kept for it, a shim over
// the newer one. Its client takes the card's first interface that it knows.
func newRemoteV0(url string) (agent.Agent, error) {
	return remotev0.NewA2A(remotev0.A2AConfig{
		Name:            remoteName,
		Description:     remoteDescription,
		AgentCardSource: url,
		BeforeRequestCallbacks: []remotev0.BeforeA2ARequestCallback{
			func(ctx agent.CallbackContext, req *a2av0.MessageSendParams) (*session.Event, error) {
				if text, ok := callText(ctx); ok {
					req.Message.Parts = a2av0.ContentParts{a2av0.TextPart{Text: text}}
				}
				return nil, nil
			},
		},
	})
}
