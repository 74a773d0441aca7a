package sqlite

// cache remembers what was used lately, in two generations: what is found in
// the older one moves to the younger, and when that is full the older one is
// forgotten. It never forgets anything between two calls of age, so rows that
// a batch has changed and not yet written are safe in it.
type cache[K comparable, V any] struct{ young, old map[K]V }

func newCache[K comparable, V any]() cache[K, V] {
	return cache[K, V]{young: map[K]V{}, old: map[K]V{}}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, ok := c.young[k]
	if ok {
		return v, true
	}
	if v, ok = c.old[k]; ok {
		c.young[k] = v
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) { c.young[k] = v }

func (c *cache[K, V]) drop(k K) {
	delete(c.young, k)
	delete(c.old, k)
}

// age forgets the older half once the younger holds more than limit.
func (c *cache[K, V]) age(limit int) {
	if len(c.young) > limit {
		c.young, c.old = c.old, c.young
		clear(c.young)
	}
}

// reset forgets everything.
func (c *cache[K, V]) reset() {
	clear(c.young)
	clear(c.old)
}
