package cpu

import (
	"fmt"
	"os"
)

// Level is an implementation of the kernels. Higher ones need a processor that
// has the lower ones too.
type Level uint8

// The levels.
const (
	Generic Level = iota
	AVX2
	AVX512
	numLevels
)

// Variable is the environment variable that asks for a level by its name.
const Variable = "TONNAGE_SIMD"

var levelNames = [numLevels]string{"generic", "avx2", "avx512"}

// String returns the level's name, which is also its value in the environment.
func (l Level) String() string {
	if l < numLevels {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// chosen and warning are written once, before any other package reads them.
var chosen, warning = choose(os.Getenv(Variable), best())

// choose returns the level to run when the environment asks for one by name
// (empty for no wish) and the processor has all up to have.
func choose(asked string, have Level) (Level, string) {
	if asked == "" {
		return have, ""
	}
	for l, name := range levelNames {
		if name != asked {
			continue
		}
		if level := Level(l); level <= have {
			return level, ""
		}
		return have, fmt.Sprintf("%s=%s: this processor or this binary has no %s; using %s", Variable, asked, asked, have)
	}
	return have, fmt.Sprintf("%s=%q is not one of generic, avx2, avx512; using %s", Variable, asked, have)
}

// Chosen returns the level that this process runs.
func Chosen() Level { return chosen }

// SIMD returns the name of the level that this process runs.
func SIMD() string { return chosen.String() }

// Warning says what was wrong with the environment's wish; empty when it was
// granted or there was none.
func Warning() string { return warning }

// Available returns every level that this processor can run, Generic first, so
// that tests can try them all. The environment does not narrow it.
func Available() []Level {
	all := make([]Level, 0, numLevels)
	for l := Generic; l <= best(); l++ {
		all = append(all, l)
	}
	return all
}
