package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// stage is one target of the Makefile that a suite runs.
type stage struct {
	name   string
	target string // of the Makefile
	// budget is how long the stage takes at most on two quiet cores, after the
	// stages before it in the suite ci, from empty caches.
	budget time.Duration
	suites []string
}

// The suites. Tests come first in ci; see .ci/run.
const (
	suiteTestAll = "test-all"
	suiteCI      = "ci"
	suiteNightly = "nightly"
)

// Limits of a suite's time on two quiet cores, from empty caches.
const (
	testBudgetMax = 10 * time.Minute // of make test
	ciBudgetMax   = 45 * time.Minute // of all stages of .ci/run together
)

var (
	both   = []string{suiteTestAll, suiteCI}
	onlyCI = []string{suiteCI}
	night  = []string{suiteNightly}
)

// stages are all stages, in the order in which they run.
var stages = []stage{
	{"tests", "test", 440 * time.Second, onlyCI},
	{"Kubernetes binaries", "k8s-tools", 330 * time.Second, both},
	{"operator and API server", "test-cluster", 190 * time.Second, both},
	{"pods in one cluster", "e2e-short", 35 * time.Second, both},
	{"pods that come and go", "e2e-pods-short", 210 * time.Second, []string{suiteTestAll}},
	{"machines by scripts", "e2e-exec", 10 * time.Minute, []string{suiteTestAll}},
	{"Karpenter", "karpenter-tools", 120 * time.Second, []string{suiteTestAll}},
	{"machines of Karpenter", "e2e-karpenter", 8 * time.Minute, []string{suiteTestAll}},
	{"Cluster API", "capi-tools", 5 * time.Minute, []string{suiteTestAll}},
	{"machines of Cluster API", "e2e-capi", 11 * time.Minute, []string{suiteTestAll}},
	{"charts", "charts", 30 * time.Second, both},
	{"scenarios", "scenarios", 15 * time.Second, both},
	{"commands of the docs", "docs-check", 15 * time.Second, both},
	{"format", "fmt-check", 5 * time.Second, onlyCI},
	{"architecture", "arch", 10 * time.Second, onlyCI},
	{"tidiness", "tidy-check", 25 * time.Second, onlyCI},
	{"vet", "vet", 55 * time.Second, onlyCI},
	{"linters", "lint", 170 * time.Second, onlyCI},
	{"platforms", "platforms", 95 * time.Second, onlyCI},
	{"generated assembly", "asm-check", 10 * time.Second, onlyCI},
	{"generated manifests", "crds-check", 40 * time.Second, onlyCI},
	{"generated protocol code", "generate-check", 5 * time.Second, onlyCI},
	{"tools of tests", "tools-check", 15 * time.Second, onlyCI},
	{"fuzz", "fuzz", 65 * time.Second, onlyCI},
	{"race", "race", 800 * time.Second, onlyCI},
	{"two sockets", "test-numa", 90 * time.Second, onlyCI},
	{"allocations, counters and plans", "gates-exact", 25 * time.Second, onlyCI},
	{"instructions", "gates-instructions", 60 * time.Second, onlyCI},
	{"base and head", "gates-compare", 70 * time.Second, onlyCI},
	{"gates that are tried", "gates-try", 105 * time.Second, onlyCI},
	{"race, with Kubernetes", "race-cluster", 10 * time.Minute, night},
	{"fuzz, guided", "soak-fuzz", 40 * time.Minute, night},
	{"releases for all platforms", "release", 15 * time.Minute, night},
	{"two clusters, and faults", "e2e", 30 * time.Minute, night},
	{"600 pods that come and go", "e2e-pods", 130 * time.Minute, night},
	{"500 machines by scripts", "soak-exec", 28 * time.Minute, night},
	{"a day beside Karpenter", "day-karpenter", 12 * time.Minute, night},
	{"500 machines of Karpenter", "soak-karpenter", 60 * time.Minute, night},
	{"500 machines of Cluster API", "soak-capi", 80 * time.Minute, night},
	{"kills of a shard", "soak-restart", 20 * time.Minute, night},
	{"kills of the provider", "soak-provider", 20 * time.Minute, night},
	{"kills of a provider of pools", "soak-pools", 10 * time.Minute, night},
	{"kills with the clock off", "soak-clock", 20 * time.Minute, night},
	{"syncs that fail", "soak-disk", 15 * time.Minute, night},
	{"hostile requests, API server restarts", "soak-operator", 20 * time.Minute, night},
	{"kills while machines move", "soak-moves", 30 * time.Minute, night},
	{"faults of the coordinator", "soak-coordinator", 12 * time.Minute, night},
	{"leaders while machines move", "soak-unrest", 20 * time.Minute, night},
	{"shards without coordinator", "soak-static", 14 * time.Minute, night},
	{"gangs in a contended fleet", "soak-gangs", 20 * time.Minute, night},
	{"200 operators", "soak-fleet", 20 * time.Minute, night},
	{"memory of a large shard", "resident", 10 * time.Minute, night},
	{"the page for an hour", "page-long", 80 * time.Minute, night},
	{"200,000 random fleets", "soak-fleets", 20 * time.Minute, night},
	{"8,000 scripts of 25 cycles", "soak-scripts", 40 * time.Minute, night},
	{"a million simulated cycles", "soak-sim", 20 * time.Minute, night},
	{"100,000 closed loops", "soak-loops", 60 * time.Minute, night},
	{"kernels with AVX-512", "test-avx512", 10 * time.Minute, night},
}

// suite returns the stages of a suite; none when there is no such suite.
func suite(name string) []stage {
	var out []stage
	for _, s := range stages {
		if slices.Contains(s.suites, name) {
			out = append(out, s)
		}
	}
	return out
}

// markdown is the table of stages as docs/testing.md shows it.
func markdown() string {
	var b strings.Builder
	b.WriteString("| stage | target | budget, s | suites |\n|---|---|---:|---|\n")
	var total time.Duration // of ci
	for _, s := range stages {
		fmt.Fprintf(&b, "| %s | `make %s` | %.0f | %s |\n", s.name, s.target, s.budget.Seconds(), strings.Join(s.suites, ", "))
		if slices.Contains(s.suites, suiteCI) {
			total += s.budget
		}
	}
	fmt.Fprintf(&b, "| all stages of `.ci/run` | | %.0f | |\n", total.Seconds())
	return b.String()
}
