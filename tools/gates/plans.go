package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where a tree holds the checksums of its plans: those of one cycle by rung and
// regime, and those of many cycles of the smallest rung by regime.
const (
	cyclePlansFile  = "benches/testdata/gates.json"
	regimePlansFile = "benches/testdata/plans.json"
	regimePlansRung = "tiny"
)

// notCompared is the line for work that two trees decide in another way.
const notCompared = "  %-48s plans differ, not compared\n"

// plans are checksums by file, rung and regime.
type plans map[[3]string]string

// otherPlans returns those of the named pieces of work for which the two trees come
// to other plans: they do other work, and neither its time nor its instructions can
// be compared. The trees' own tests hold what is written down to what is decided.
func otherPlans(base, head string, names []string) ([]string, error) {
	before, err := readPlans(base)
	if err != nil {
		return nil, err
	}
	after, err := readPlans(head)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		rung, regime := partOf(name, "rung"), partOf(name, "regime")
		for _, file := range []string{cyclePlansFile, regimePlansFile} {
			at := [3]string{file, rung, regime}
			if a, b := before[at], after[at]; a != "" && b != "" && a != b {
				out = append(out, name)
				break
			}
		}
	}
	return out, nil
}

// partOf is the value of a key in the name of work; empty when it has none.
func partOf(name, key string) string {
	for part := range strings.SplitSeq(name, "/") {
		if value, ok := strings.CutPrefix(part, key+"="); ok {
			return value
		}
	}
	return ""
}

// readPlans reads what is written down in a tree; a file that it lacks says nothing.
func readPlans(root string) (plans, error) {
	out := plans{}
	var cycles []struct{ Rung, Regime, Plan string }
	if err := readJSON(filepath.Join(root, cyclePlansFile), &cycles); err != nil {
		return nil, err
	}
	for _, c := range cycles {
		out[[3]string{cyclePlansFile, c.Rung, c.Regime}] = c.Plan
	}
	var regimes map[string]string
	if err := readJSON(filepath.Join(root, regimePlansFile), &regimes); err != nil {
		return nil, err
	}
	for regime, plan := range regimes {
		out[[3]string{regimePlansFile, regimePlansRung, regime}] = plan
	}
	return out, nil
}

// readJSON reads a file into what is pointed to, which stays as it is when there is
// no such file.
func readJSON(path string, to any) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
