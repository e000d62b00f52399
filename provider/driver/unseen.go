package driver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Unseen is an error of Observe that was whole but for some clusters: what was yielded is all that exists elsewhere. A driver
// returns it as it is, wrapped in nothing: beside another error Observe was not whole.
type Unseen struct {
	Clusters map[string]error // why, by what Binding.Cluster calls it
}

// Error names the clusters.
func (u *Unseen) Error() string { return errors.Join(u.Unwrap()...).Error() }

// Unwrap returns why each cluster was not seen.
func (u *Unseen) Unwrap() []error {
	var all []error
	for _, id := range slices.Sorted(maps.Keys(u.Clusters)) {
		all = append(all, fmt.Errorf("cluster %q: %w", id, u.Clusters[id]))
	}
	return all
}
