package report

// queue hands out what waits, one of each namespace in turn, so that nobody waits for all
// that another has. What is put under a version that waits takes its place. One owner.
type queue[T any] struct {
	lines map[string]*line[T]
	turns []string // namespaces with something that waits; the first is next
	n     int
}

// line is what waits in one namespace.
type line[T any] struct {
	order []version // the first is next
	by    map[version]T
}

// len returns how many wait.
func (q *queue[T]) len() int { return q.n }

// put adds to the line of a namespace.
func (q *queue[T]) put(namespace string, v version, x T) {
	if q.lines == nil {
		q.lines = map[string]*line[T]{}
	}
	l := q.lines[namespace]
	if l == nil {
		l = &line[T]{by: map[version]T{}}
		q.lines[namespace] = l
		q.turns = append(q.turns, namespace)
	}
	if _, waits := l.by[v]; !waits {
		l.order = append(l.order, v)
		q.n++
	}
	l.by[v] = x
}

// take returns up to so many, and they wait no more.
func (q *queue[T]) take(most int) []T {
	out := make([]T, 0, min(most, q.n))
	for len(out) < most && len(q.turns) > 0 {
		namespace := q.turns[0]
		q.turns = q.turns[1:]
		l := q.lines[namespace]
		v := l.order[0]
		l.order = l.order[1:]
		out = append(out, l.by[v])
		delete(l.by, v)
		q.n--
		if len(l.order) > 0 {
			q.turns = append(q.turns, namespace)
		} else {
			delete(q.lines, namespace)
		}
	}
	return out
}
