package issuer

// generations remembers a bounded number of things. When the younger
// generation is full it becomes the older one and the older one is forgotten:
// what is in use is carried over.
type generations[K comparable, V any] struct {
	limit          int
	younger, older map[K]V
}

func (g *generations[K, V]) get(k K) (v V, found bool) {
	if v, found = g.younger[k]; found {
		return v, true
	}
	if v, found = g.older[k]; found {
		g.put(k, v)
	}
	return v, found
}

func (g *generations[K, V]) put(k K, v V) {
	if _, found := g.younger[k]; !found && (g.younger == nil || 2*len(g.younger) >= g.limit) {
		g.older, g.younger = g.younger, map[K]V{}
	}
	g.younger[k] = v
}
