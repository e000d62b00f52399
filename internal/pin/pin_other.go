//go:build !linux

package pin

import (
	"errors"
	"fmt"
)

// lowerPriority does nothing: threads have no priority of their own here.
func lowerPriority() {}

func to(cpu int) (release func(), err error) {
	return nil, fmt.Errorf("pin: CPU %d: %w on this system", cpu, errors.ErrUnsupported)
}
