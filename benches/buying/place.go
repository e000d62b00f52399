package buying

import "github.com/tonnage/tonnage/operator/packing"

// Placer puts pods on machines, adds them to what is used of these, and returns the machine
// of each, -1 where none has room.
type Placer func(machines []packing.Machine, pods []Pod) []int

// Packed places pods as the operator's packer does.
func Packed(machines []packing.Machine, pods []Pod) []int {
	index, groups, groupOf := map[Pod]int{}, []packing.Pods{}, make([]int, len(pods))
	for i, p := range pods {
		at, known := index[p]
		if !known {
			at = len(groups)
			index[p] = at
			groups = append(groups, packing.Pods{Size: pods[i][:]})
		}
		groups[at].Count++
		groupOf[i] = at
	}
	found := packing.Place(machines, groups)
	placed := make([]int, len(pods))
	for i, at := range groupOf {
		placed[i] = -1
		if len(found[at]) > 0 {
			placed[i], found[at] = found[at][0], found[at][1:]
		}
	}
	return placed
}

// Scheduled places pods as a kube-scheduler with that score would, in the order in which
// they were created.
func Scheduled(score Score) Placer {
	return func(machines []packing.Machine, pods []Pod) []int {
		sizes := make([][]int64, len(pods))
		for i := range pods {
			sizes[i] = pods[i][:]
		}
		return schedule(machines, sizes, score, []int{dimCPU, dimMemory})
	}
}
