package packing

// alignment is by how much a pod brings the free room of a machine nearer to the shape of what is
// still to be placed: the square of the distance between the room and the line through rest,
// before less after, with each dimension as a share of what all machines have of it.
func alignment(m *Machine, pod []int64, weights, rest []float64) float64 {
	return distance(m, nil, weights, rest) - distance(m, pod, weights, rest)
}

// distance is the square of the distance between a machine's room, less a pod, and the line through
// rest.
func distance(m *Machine, pod []int64, weights, rest []float64) float64 {
	var along, length, square float64
	for d, r := range rest {
		x := m.free(d)
		if pod != nil {
			x -= pod[d]
		}
		room := float64(x) * weights[d]
		along += room * r
		length += r * r
		square += room * room
	}
	if length == 0 {
		return square
	}
	return square - along*along/length
}
