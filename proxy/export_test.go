package proxy

// Connections returns how many connections p has to an agent, the spare one
// included: no test could wait for them to come and go otherwise.
func (p *Proxy) Connections(agent string) int {
	r := p.agents[agent].reach
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.open
	if r.spare != nil {
		n++
	}
	return n
}
