package proxy

// Connections returns how many connections p has to an agent, spare ones
// included: no test could wait for them to come and go otherwise.
func (p *Proxy) Connections(agent string) int {
	u, n := p.agents[agent], 0
	for _, c := range []*channel{u.base, u.knownGRPC()} {
		if c == nil {
			continue
		}
		c.reach.mu.Lock()
		n += c.reach.open
		if c.reach.spare != nil {
			n++
		}
		c.reach.mu.Unlock()
	}
	return n
}
