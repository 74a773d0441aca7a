package redis

import "github.com/a2a-sidecar/a2a-sidecar/sessions"

// reply is what every script over a tree returns (flush.lua).
type reply struct {
	status    string
	upkeep    string
	due       int64 // when something is due in the tree next
	started   int64
	principal string
	told      []sessions.Notice // to all sidecars
	places    []place
	bindings  []learnt
	own       []any // the script's own
	more      bool  // of lapse.lua

	err error // what text and number found wrong
}

// place is what became of a run's place at a capped agent.
type place struct {
	op                  string // "-" given back, "+" taken, ">" held for longer
	agent, run, session string
	till                int64
}

// learnt is an id that belongs to the tree.
type learnt struct {
	key sessions.BindingKey
	new bool // the tree has learnt it just now
}

// reply reads the outcome of a call of a script over a tree.
func (c *call) reply() (*reply, error) {
	values, err := c.Slice()
	if err != nil {
		return nil, err
	}
	r := &reply{own: values}
	r.status, r.upkeep, r.due, r.started, r.principal = r.text(0), r.text(1), r.number(2), r.number(3), r.text(4)
	told, places, bindings := news(r.text(5)), unpack(r.text(6)), unpack(r.text(7))
	r.told = told.notices()
	for places.more() {
		r.places = append(r.places, place{places.str(), places.str(), places.str(), places.str(), places.num()})
	}
	for bindings.more() {
		key := sessions.BindingKey{Kind: sessions.BindingKind(bindings.str()), Agent: bindings.str(), ID: bindings.str()}
		r.bindings = append(r.bindings, learnt{key, bindings.flag()})
	}
	for _, err := range []error{r.err, told.err, places.err, bindings.err} {
		if err != nil {
			return nil, err
		}
	}
	r.own = values[8:]
	return r, nil
}

func (r *reply) text(i int) string {
	if i < len(r.own) {
		if s, ok := r.own[i].(string); ok {
			return s
		}
	}
	r.err = errDamaged
	return ""
}

func (r *reply) number(i int) int64 {
	if i < len(r.own) {
		if n, ok := r.own[i].(int64); ok {
			return n
		}
	}
	r.err = errDamaged
	return 0
}
