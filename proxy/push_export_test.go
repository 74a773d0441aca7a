package proxy

import (
	"net/netip"
	"time"
)

// Outgoing is the URL that stands in place of one in a call.
func (p *Proxy) Outgoing(agent, principal, url string) string {
	return p.push.outgoing(agent, principal, url)
}

// Original is the inverse of Outgoing.
func (p *Proxy) Original(url string) (string, bool) { return p.push.original(url) }

// DeliverWithin sets what a target gets to answer.
func (p *Proxy) DeliverWithin(d time.Duration) { p.push.within = d }

// Hearings returns of how many tasks notifications are expected.
func (p *Proxy) Hearings() int {
	p.push.hearings.mu.Lock()
	defer p.push.hearings.mu.Unlock()
	return len(p.push.hearings.open)
}

// MaxHearings bounds them.
const MaxHearings = maxHearings

// Forbidden reports whether nothing is sent to an address.
func Forbidden(a netip.Addr) bool { return forbidden(a) }
