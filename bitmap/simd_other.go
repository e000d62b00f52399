//go:build !amd64 || purego

package bitmap

import "github.com/tonnage/tonnage/internal/cpu"

// level is the implementation that runs: there is one here.
var level = cpu.Generic

func filterEqualBlocks(_ []uint64, _ []uint8, _ uint8) int { return 0 }
func andNotBlocks(_, _, _ []uint64) (done int)             { return 0 }
