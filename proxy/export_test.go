package proxy

import (
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Connections returns how many connections p has to an agent, spare ones
// included: no test could wait for them to come and go otherwise.
func (p *Proxy) Connections(agent string) int {
	u, n := p.agents[agent], 0
	for _, c := range append(u.grpc.all(), u.base) {
		c.reach.mu.Lock()
		n += c.reach.open
		if c.reach.spare != nil {
			n++
		}
		c.reach.mu.Unlock()
	}
	return n
}

// CardPatience sets what an agent gets to send a card while its last is kept.
func (p *Proxy) CardPatience(agent string, d time.Duration) { p.agents[agent].cards.patience = d }

// GRPCPlaces returns where gRPC calls to an agent go, each place once.
func (p *Proxy) GRPCPlaces(agent string) (urls []string) {
	for _, c := range p.agents[agent].grpc.all() {
		urls = append(urls, c.url.String())
	}
	return urls
}

// ForgetGRPC gives up what is known of them.
func (p *Proxy) ForgetGRPC(agent string) {
	u := p.agents[agent]
	for _, c := range u.grpc.all() {
		u.forgetGRPC(c)
	}
}

// Outreach returns what the record calls agents by.
func (p *Proxy) Outreach() sessions.Outreach { return outreach{p} }
