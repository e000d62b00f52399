# Everything is built from here with Go and git. What else a target needs, it
# installs or builds itself, and says so.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

GO ?= go
BIN := bin/tonnage
# The shared folder of traces and acceptance scenarios lies beside the checkout.
SHARED ?= ../shared
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Everything is compiled in one way, that of a release, so that whatever has been
# compiled for one target is there for the next: without paths of this machine, without
# what only a debugger reads, and without C. See docs/decisions/0034-one-way-to-compile.md.
COMPILE := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(COMPILE),$(shell $(GO) env GOFLAGS)) $(COMPILE))
export CGO_ENABLED := 0

# make run
RUNG ?=
SCENARIO ?= contended
TRACE ?=
LISTEN ?= 127.0.0.1:8080
ARGS ?=
TRACE_ARGS ?=

# make profile, make gates-compare, make benchmarks
REGIME ?= cold
WORKERS ?= 0
CYCLES ?= 60
BASE ?=
BENCHMARKS ?=

# make soak-fleets, make soak-scripts, make soak-rungs, make soak-sim, make soak-loops, make fuzz, make bench
FLEETS ?= 200000
TAB_MINUTES ?= 60
FLEET_FROM ?= 1
SCRIPTS ?= 8000
SCRIPT_FROM ?= 1
RUNG_CYCLES ?= 100000
RUNG_FROM ?= 1
SIM_CYCLES ?= 1000000
SIM_COMPARE ?= 1
SIM_FROM ?= 1
LOOPS ?= 100000
LOOP_FROM ?= 1
SOAK ?= 10m
DEAD ?= 10m
UNREST ?= 15
FUZZ_TIME ?= 3000x
BENCH ?= .
BENCH_TIME ?= 1s

comma := ,

# make e2e, make e2e-short, make e2e-pods
E2E ?=

# make e2e-exec
EXEC_MACHINES ?= 20
EXEC_GUESTS ?= 3
EXEC_KILLS ?= 6
EXEC_LIMIT ?= 4m

# make e2e-karpenter
KARPENTER_MACHINES ?= 20
KARPENTER_KILLS ?= 6
KARPENTER_LIMIT ?= 4m

# make e2e-capi
CAPI_MACHINES ?= 20
CAPI_KILLS ?= 6
CAPI_LIMIT ?= 4m

# make soak-restart, soak-provider, soak-pools, soak-clock, soak-disk, soak-operator
ROUNDS ?= 40
HOSTILE ?= 2000
RESTARTS ?= 12
KILLS ?= 200
SEED ?= 0

# make load
LOAD_SESSIONS ?= 5000
LOAD_RATE ?= 1000
LOAD_ROLLUPS ?= 60000

# What packages reach that make test leaves to make test-cluster: of all that tests from
# nothing would compile, two thirds are it and what comes with it.
KUBERNETES := k8s.io/client-go
# How tests are built and run under the race detector.
RACE := -race -short -tags invariants -timeout 20m -vet=off

CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/tonnage
LINT_KEY = $(shell { cat tools/go.mod tools/go.sum; $(GO) env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16)
LINT = $(CACHE)/lint/$(LINT_KEY)/golangci-lint
FUNCTIONS := ./alloc ./bitmap ./columnar ./benches

##@ Use

.PHONY: run
run: build ## start everything on http://127.0.0.1:8080 (SCENARIO=name, WORLD=file, RUNG=tiny|5k|50k, TRACE=dir, LISTEN=host:port, ARGS="…")
	exec $(BIN) up --listen $(LISTEN) $(if $(WORLD),-f $(WORLD),$(if $(TRACE),--trace $(TRACE) $(TRACE_ARGS),$(if $(RUNG),--rung $(RUNG),--scenario $(SCENARIO)))) $(ARGS)

.PHONY: build
build: ## build bin/tonnage
	@mkdir -p bin
	tools/progress "compiling $(BIN)" $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/tonnage

.PHONY: build-operator
build-operator: ## build bin/tonnage-operator, a cluster's side
	@mkdir -p bin
	tools/progress "compiling bin/tonnage-operator" $(GO) build -ldflags '$(LDFLAGS)' -o bin/tonnage-operator ./cmd/tonnage-operator

.PHONY: build-provider
build-provider: ## build bin/tonnage-provider, real machines behind the provider protocol
	@mkdir -p bin
	tools/progress "compiling bin/tonnage-provider" $(GO) build -ldflags '$(LDFLAGS)' -o bin/tonnage-provider ./cmd/tonnage-provider

.PHONY: release
release: ## build/release: all binaries for linux on amd64, amd64 from v3 on, and arm64, with checksums
	tools/release $(VERSION)

##@ Test

.PHONY: test
test: browser network build/stages ## the tests without Kubernetes and its libraries, within ten minutes on a new machine
	@TONNAGE_NO_KUBERNETES=1 build/stages test -without=$(KUBERNETES) -vet=off ./...

.PHONY: test-all
test-all: build/stages ## Kubernetes, charts, scenarios, commands of the docs
	@build/stages run test-all

.PHONY: nightly
nightly: build/stages ## end-to-end runs, soaks and 200,000 random fleets; hours
	@build/stages run nightly

.PHONY: test-cluster
test-cluster: k8s-tools build/stages ## the tests that make test leaves out: the operator, against a real API server
	@build/stages test -with=$(KUBERNETES) -count=1 -vet=off ./...

.PHONY: docs-check
docs-check: ## links of the docs, and every command whose output a page shows
	$(GO) test -count=1 -vet=off ./docs

build/stages: $(wildcard tools/stages/*.go) tools/go.mod
	@mkdir -p $(@D)
	@tools/progress "compiling the runner of stages" $(GO) -C tools build -o ../build/stages ./stages
	@touch $@

.PHONY: soak-restart
soak-restart: ## kill the shard at random moments under load (KILLS=200 SEED=0)
	$(GO) test -vet=off -count=1 -timeout 60m -v ./internal/e2e -run Killed -kills $(KILLS) -seed $(SEED)

.PHONY: soak-provider
soak-provider: ## kill the provider alone at random moments under load (KILLS=200 SEED=0)
	$(GO) test -vet=off -count=1 -timeout 60m -v ./internal/e2e -run ProviderDies -kills $(KILLS) -seed $(SEED)

.PHONY: soak-pools
soak-pools: ## kill a provider of pools at random moments under load, and compare what exists with what it answered (KILLS=200)
	TONNAGE_KILLS=$(KILLS) $(GO) test -vet=off -count=1 -timeout 60m -v ./cmd/tonnage-provider -run Killed

.PHONY: soak-clock
soak-clock: ## kill shard and provider at random moments, with the wall clock up to an hour off each time (KILLS=200 SEED=0)
	$(GO) test -vet=off -tags testclock -count=1 -timeout 60m -v ./internal/e2e -run UnderJumps -kills $(KILLS) -seed $(SEED)

.PHONY: soak-disk
soak-disk: ## let syncs of shard and provider fail from some time on, again and again (ROUNDS=40 SEED=0)
	@command -v strace >/dev/null || tools/need strace
	$(GO) test -vet=off -count=1 -timeout 60m -v ./internal/e2e -run SyncsThatFail -failing-syncs $(ROUNDS) -seed $(SEED)

.PHONY: soak-operator
soak-operator: k8s-tools ## 16,000 hostile CapacityRequests, an API server that is restarted again and again, a clock that is off (HOSTILE=2000 RESTARTS=12 SEED=0)
	$(GO) test -vet=off -tags testclock -count=1 -timeout 60m -v ./operator -run 'HostileRequests|APIServerRestarts|StepsOfTheClock' -soak-process -soak-hostile $(HOSTILE) -soak-restarts $(RESTARTS) -soak-seed $(SEED)

.PHONY: resident
resident: ## memory of the process of a shard with 500,000 machines and 1,000 sessions (RESIDENT_RUNG=500k)
	$(GO) test -vet=off -count=1 -timeout 30m -v ./internal/e2e -run Resident -resident-rung $(or $(RESIDENT_RUNG),500k) -resident-cycle-interval 10s -resident-wait 10m

.PHONY: soak-gangs
soak-gangs: ## 2,000 cycles of a contended fleet, with gangs and machine by machine (GANGS="-soak-seeds 3")
	$(GO) test -vet=off -count=1 -timeout 0 -v ./internal/sim -run GangsInAContendedFleet -soak-gangs $(GANGS)

.PHONY: soak-fleet
soak-fleet: ## 200 operators, a region's demand, and everything cut off in turn; a roll-up of 20,000 rows
	$(GO) test -vet=off -count=1 -timeout 60m -v ./internal/e2e -parallel 1 -run 'Fleet|LargeRollup' -rung 5k -latency 1s-3s -rest 5s -rows 20000 -rounds 9

.PHONY: scenarios
scenarios: build ## run the acceptance scenarios against the binary (SHARED=../shared has the runner)
	@if [ ! -f $(SHARED)/scenarios/run.py ]; then \
	  echo "no runner at $(SHARED)/scenarios/run.py; put the shared folder beside this checkout, or name it: make scenarios SHARED=DIR" >&2; exit 1; fi
	@command -v python3 >/dev/null || tools/need python3
	python3 $(SHARED)/scenarios/run.py --bin $(BIN) internal/scenario/testdata

.PHONY: race
race: browser network build/stages ## run what make test runs under the race detector, with the checks of lent memory
	@command -v gcc >/dev/null || tools/need gcc libc6-dev
	TONNAGE_NO_KUBERNETES=1 CGO_ENABLED=1 build/stages test -without=$(KUBERNETES) $(RACE) ./...
	$(GO) test -vet=off -tags invariants ./alloc # mapped memory, which a build with the race detector has not

.PHONY: race-cluster
race-cluster: k8s-tools build/stages ## the same for what make test-cluster runs
	@command -v gcc >/dev/null || tools/need gcc libc6-dev
	CGO_ENABLED=1 build/stages test -with=$(KUBERNETES) $(RACE) ./...

.PHONY: network
network: # the tests cut replicas off; without root they say what to do
	@if [ "$$(id -u)" -eq 0 ] && [ -z "$${TONNAGE_NO_NETNS:-}" ]; then tools/need iproute2 nftables; fi

.PHONY: e2e
e2e: k8s-tools ## two real clusters from nothing to nothing, then again with faults; draws build/e2e.svg (E2E="-interval 10s")
	$(GO) test -vet=off -count=1 -timeout 40m -v ./internal/kubee2e -run Full -e2e full -timeline $(CURDIR)/build/e2e.svg $(E2E)
	$(GO) test -vet=off -count=1 -timeout 40m -v ./internal/kubee2e -run Faults -e2e faults -timeline $(CURDIR)/build/e2e-faults.svg $(E2E)

.PHONY: e2e-short
e2e-short: k8s-tools ## 30 pods in one real cluster; draws build/e2e-short.svg
	$(GO) test -vet=off -count=1 -timeout 10m -v ./internal/kubee2e -run Short -e2e short -interval 5s -timeline $(CURDIR)/build/e2e-short.svg $(E2E)

.PHONY: e2e-pods
e2e-pods: k8s-tools ## 600 pods come and go for ten minutes on machines of a real price list; table, build/e2e-pods.json, pictures (PODS=600 MINUTES=10 REGIONS=A,B PROFILES=tonnage,default FEEDS=plain,gangs SEED=0)
	$(GO) test -vet=off -count=1 -timeout 150m -v ./internal/kubee2e -run 'Pods$$' -e2e pods -pods-count $(or $(PODS),600) -pods-minutes $(or $(MINUTES),10) \
	  -pods-regions $(or $(REGIONS),A$(comma)B) -pods-profiles $(or $(PROFILES),tonnage$(comma)default) -pods-feeds $(or $(FEEDS),plain$(comma)gangs) -seed $(SEED) \
	  -pods-within 60s -pods-again -pods-over A/tonnage=8,A/default=10 -timeline $(CURDIR)/build/e2e-pods.svg -pods-json $(CURDIR)/build/e2e-pods.json $(E2E)

.PHONY: e2e-pods-short
e2e-pods-short: k8s-tools ## the same with 60 plain pods, for two minutes
	$(GO) test -vet=off -count=1 -timeout 10m -v ./internal/kubee2e -run 'Pods$$' -e2e pods -pods-count 60 -pods-minutes 2 -seed $(SEED) \
	  -interval 5s -timeline $(CURDIR)/build/e2e-pods-short.svg -pods-json $(CURDIR)/build/e2e-pods-short.json $(E2E)

.PHONY: e2e-exec
e2e-exec: k8s-tools scripts-tools ## driver exec: two real clusters, processes and QEMU guests as machines, losses and kills; domains of libvirt; draws build/e2e-exec.svg (EXEC_MACHINES=20 EXEC_GUESTS=3 EXEC_KILLS=6 SEED=0)
	$(GO) test -vet=off -count=1 -timeout 90m -v ./internal/kubee2e -run 'Exec$$' -e2e exec -machines $(EXEC_MACHINES) -guests $(EXEC_GUESTS) -kills $(EXEC_KILLS) \
	  -seed $(SEED) -limit $(EXEC_LIMIT) -guest $(CACHE)/guest -timeline $(CURDIR)/build/e2e-exec.svg $(E2E)
	$(GO) test -vet=off -count=1 -timeout 20m -v ./internal/kubee2e -run 'Exec(Guest|Virsh)' -e2e exec-guests,exec-virsh -guest $(CACHE)/guest

.PHONY: soak-exec
soak-exec: ## the same with 500 processes, and 50 kills of provider and shard each
	$(MAKE) e2e-exec EXEC_MACHINES=500 EXEC_KILLS=50 EXEC_LIMIT=15m

.PHONY: e2e-karpenter
e2e-karpenter: k8s-tools karpenter-tools ## driver karpenter: two real clusters in which Karpenter makes the machines, its cloud is out of stock and takes machines back, and everything is killed; what its faults look like; all from the charts, beside a NodePool; draws build/e2e-karpenter.svg (KARPENTER_MACHINES=20 KARPENTER_KILLS=6 SEED=0)
	$(GO) test -vet=off -count=1 -timeout 90m -v ./internal/kubee2e -run 'Karpenter(Faults|Charts)?$$' -e2e karpenter,karpenter-faults,karpenter-charts -machines $(KARPENTER_MACHINES) -kills $(KARPENTER_KILLS) \
	  -seed $(SEED) -limit $(KARPENTER_LIMIT) -timeline $(CURDIR)/build/e2e-karpenter.svg $(E2E)

# make day-karpenter
DAY_MINUTES ?= 10

.PHONY: day-karpenter
day-karpenter: k8s-tools karpenter-tools ## what a day of a real trace costs with a NodePool of Karpenter, and with Tonnage by driver karpenter, side by side in two clusters; draws build/day-karpenter.svg (DAY_MINUTES=10)
	$(GO) test -vet=off -count=1 -timeout 90m -v ./internal/kubee2e -run 'KarpenterDay$$' -e2e karpenter-day -day-minutes $(DAY_MINUTES) -timeline $(CURDIR)/build/day-karpenter.svg $(E2E)

.PHONY: soak-karpenter
soak-karpenter: ## the same with 500 machines, and 50 kills of provider, shard and each Karpenter
	$(MAKE) e2e-karpenter KARPENTER_MACHINES=500 KARPENTER_KILLS=50 KARPENTER_LIMIT=15m

.PHONY: e2e-capi
e2e-capi: k8s-tools capi-tools ## driver cluster-api: two real clusters whose machines a real Cluster API makes on a played infrastructure, with losses, capacity that is out and kills; its in-memory infrastructure, and what goes wrong there; all from the charts; draws build/e2e-capi.svg (CAPI_MACHINES=20 CAPI_KILLS=6 SEED=0)
	$(GO) test -vet=off -count=1 -timeout 90m -v ./internal/kubee2e -run 'Capi(Dev|Charts)?$$' -e2e capi,capi-dev,capi-charts -machines $(CAPI_MACHINES) -kills $(CAPI_KILLS) \
	  -seed $(SEED) -limit $(CAPI_LIMIT) -timeline $(CURDIR)/build/e2e-capi.svg $(E2E)

.PHONY: soak-capi
soak-capi: ## the same with 500 machines, and 50 kills of provider, shard, Cluster API and infrastructure each
	$(MAKE) e2e-capi CAPI_MACHINES=500 CAPI_KILLS=50 CAPI_LIMIT=15m

.PHONY: scripts-tools
scripts-tools: # what the scripts of deploy/exec need; without root, tests say what is missing
	@if [ "$$(id -u)" -eq 0 ]; then tools/need curl cpio qemu-system-x86 libvirt-clients libvirt-daemon xorriso shellcheck; fi

.PHONY: soak-moves
soak-moves: ## kill shards and the coordinator while machines change their shard (KILLS=200 SEED=0)
	$(GO) test -vet=off -count=1 -timeout 120m -v ./internal/e2e -run MovesWithKills -move-kills $(KILLS) -seed $(SEED)

.PHONY: soak-coordinator
soak-coordinator: network ## kill, stop and cut off replicas of the coordinator for ten minutes (SOAK=10m)
	$(GO) test -vet=off -count=1 -timeout 0 -v -run Soak ./coordinator/faults -soak $(SOAK)

.PHONY: soak-unrest
soak-unrest: network ## kill, stop and cut off leaders with mutual TLS while machines change their shards, each process with its clock up to an hour off; a round is 3 kills, a stop and a partition (UNREST=15 SEED=0)
	$(GO) test -vet=off -tags testclock -count=1 -timeout 0 -v ./coordinator/faults -run InUnrest -unrest-rounds $(UNREST) -seed $(SEED)

.PHONY: soak-static
soak-static: network ## three shards without any coordinator for ten minutes of changing demand, and how they catch up (DEAD=10m)
	$(GO) test -vet=off -count=1 -timeout 0 -v -run ShardsGoOn ./coordinator/faults -dead $(DEAD) -dead-step 5s

.PHONY: test-numa
test-numa: ## run memory, placement and a benchmark on an emulated machine with two sockets (NUMA_RUNG=50k)
	@CACHE=$(CACHE) tools/numa/run

.PHONY: platforms
platforms: ## what other machines run: packages with files for arm64, purego, and plans without vector kernels; make release builds everything for all platforms
	GOARCH=arm64 $(GO) build ./alloc ./bitmap ./engine ./internal/callgrind ./internal/cpu ./internal/pin ./provider/exec
	GOARCH=arm64 $(GO) vet ./bitmap ./internal/cpu
	$(GO) vet -tags purego ./bitmap ./internal/cpu
	$(GO) test -vet=off -tags purego ./bitmap ./internal/cpu
	TONNAGE_SIMD=generic $(GO) test -vet=off -count=1 -run Gates ./benches

.PHONY: test-avx512
test-avx512: ## test the kernels on an emulated processor with AVX-512 (minutes)
	@tools/avx512/run

.PHONY: fuzz
fuzz: ## fuzz every target for some inputs (FUZZ_TIME=3000x, or 1m)
	@tools/fuzz $(FUZZ_TIME)

.PHONY: soak-fuzz
soak-fuzz: ## fuzz every target for a minute, guided by what an input reaches
	@tools/fuzz 1m

.PHONY: page-long
page-long: ## the page of 500,000 machines, and the memory of a tab that stays open (TAB_MINUTES=60)
	TONNAGE_PAGE_LARGE=1 TONNAGE_TAB_MINUTES=$(TAB_MINUTES) $(GO) test -vet=off -count=1 -timeout 2h -v ./web/e2e -run 'Payloads|KeepsItsSize|EveryViewIsAccessible'

.PHONY: soak-fleets
soak-fleets: ## compare engine and reference on many more random fleets; goes on where it ended (FLEETS=200000 FLEET_FROM=1)
	$(GO) test -vet=off -c -o $(CURDIR)/build/soak-fleets.test ./engine
	tools/insteps fleets build/soak-fleets.test EqualsReference fleets fleet-from 2000 $(FLEETS) $(FLEET_FROM) $(CURDIR)/build/soak-fleets.state

.PHONY: soak-scripts
soak-scripts: ## compare engine and reference over scripts of 25 cycles, with 1, 2, 3 and 16 workers; goes on where it ended (SCRIPTS=8000 SCRIPT_FROM=1)
	$(GO) test -vet=off -c -o $(CURDIR)/build/soak-scripts.test ./engine
	tools/insteps scripts build/soak-scripts.test 'Incremental.*TheReference' scripts script-from 200 $(SCRIPTS) $(SCRIPT_FROM) $(CURDIR)/build/soak-scripts.state

.PHONY: soak-rungs
soak-rungs: ## the fleet of a rung, changed in batches of 1 to 8,000: cycles that build on the last one against cycles from nothing (RUNG=5k RUNG_CYCLES=100000 RUNG_FROM=1)
	GOGC=400 $(GO) test -vet=off -count=1 -timeout 0 -v ./engine -run IncrementalCyclesOfRungs -rung $(or $(RUNG),5k) -rung-cycles $(RUNG_CYCLES) -rung-from $(RUNG_FROM)

.PHONY: soak-sim
soak-sim: ## worlds in trouble: faults, latencies, losses, demand that changes; goes on where it ended (SIM_CYCLES=1000000 SIM_COMPARE=1 SIM_FROM=1)
	$(GO) test -vet=off -count=1 -timeout 0 -v ./internal/sim -run WorldsInTrouble -sim-cycles $(SIM_CYCLES) -sim-compare $(SIM_COMPARE) -sim-from $(SIM_FROM) -sim-state $(CURDIR)/build/soak-sim.state

.PHONY: soak-loops
soak-loops: ## closed loops of random worlds, and what they undo; goes on where it ended (LOOPS=100000 LOOP_FROM=1)
	GOGC=800 $(GO) test -vet=off -count=1 -timeout 0 -v ./internal/sim -run 'ClosedLoops$$' -loops $(LOOPS) -loop-from $(LOOP_FROM) -loop-whole -loop-state $(CURDIR)/build/soak-loops.state

.PHONY: gates
gates: gates-exact gates-instructions gates-compare ## all that holds speed and memory to what they were

.PHONY: gates-exact
gates-exact: ## plans, candidates looked at, allocations and bytes against what is written down
	$(GO) test -vet=off -count=1 -run 'Alloc|Gates|Pinned' ./benches ./alloc ./bitmap ./columnar ./engine/model ./pprof
	TONNAGE_TIMED=1 $(GO) test -vet=off -count=1 -v -run 'OneComponent|ShrinkTakes' ./benches

.PHONY: gates-instructions
gates-instructions: ## instructions of pinned work against what is written down; needs valgrind
	@if command -v valgrind >/dev/null || tools/need valgrind; then $(GO) -C tools run ./gates instructions; \
	else echo "SKIPPED: instructions are not counted, since there is no valgrind" >&2; fi

.PHONY: gates-compare
gates-compare: ## processor time of pinned work, base and head in turn (BASE=revision)
	BASE=$(BASE) $(GO) -C tools run ./gates compare

.PHONY: gates-try
gates-try: ## see that the gates find what is planted, and nothing else
	@command -v valgrind >/dev/null || tools/need valgrind || true
	$(GO) -C tools test -count=1 ./gates/...

.PHONY: profile
profile: build ## CPU, heap, mutex and block profiles of one rung (RUNG=50k REGIME=cold WORKERS=0 CYCLES=60)
	tools/profile $(or $(RUNG),tiny) $(REGIME) $(WORKERS) $(CYCLES)

.PHONY: benchmarks
benchmarks: build ## every rung and regime as a table for docs/explanation/benchmarks.md (BENCHMARKS="-rungs 5k -workers 1")
	@$(GO) -C tools run ./gates benchmarks $(BENCHMARKS) ../$(BIN)

.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp, BENCH_TIME=1s); bin/tonnage bench measures one rung
	$(GO) test -vet=off -run '^$$' -bench '$(BENCH)' -benchtime $(BENCH_TIME) -benchmem $(FUNCTIONS)

.PHONY: load
load: ## sessions and roll-ups of many operators on loopback (LOAD_SESSIONS=5000 LOAD_RATE=1000 LOAD_ROLLUPS=60000)
	ulimit -n $$((2 * $(LOAD_SESSIONS) + 500)); $(GO) test -vet=off ./shard/session -count=1 -run '^Test(Load|FanOut)$$' -v -sessions $(LOAD_SESSIONS) -rate $(LOAD_RATE) -rollups $(LOAD_ROLLUPS)
	$(GO) test -vet=off ./shard/session -run '^$$' -bench News

##@ Check

.PHONY: check
check: fmt-check vet lint arch tidy-check ## format, vet, linters, architecture rules, tidiness

.PHONY: fmt-check
fmt-check: ## fail when a file is not formatted
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs -r ls -d 2>/dev/null | xargs -r gofmt -l); \
	if [ -n "$$files" ]; then echo "not formatted (gofmt -w mends it):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet, also of the packages that have files for the invariants tag
	$(GO) vet ./...
	$(GO) vet -tags invariants ./internal/invariants ./benches

.PHONY: lint
lint: $(LINT) ## run the linters, gosec among them
	GOLANGCI_LINT_CACHE=$(CACHE)/lint/findings tools/progress "running the linters" $(LINT) run ./...
	cd tools && GOLANGCI_LINT_CACHE=$(CACHE)/lint/findings ./progress "running the linters on the tools" $(LINT) run --config ../.golangci.yml ./...

$(LINT):
	@echo "golangci-lint is compiled once on a machine"
	@mkdir -p $(@D)
	tools/progress "compiling golangci-lint" $(GO) -C tools build -o $@.new github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@mv $@.new $@

.PHONY: charts
charts: ## render the charts: every value counts, every flag exists, objects are those of Kubernetes
	$(GO) -C tools test -count=1 ./helm

.PHONY: arch
arch: ## imports and habits of the house
	$(GO) test -vet=off -count=1 ./internal/archtest

.PHONY: tidy-check
tidy-check: ## fail when go.mod or go.sum would change
	$(GO) mod tidy -diff
	$(GO) mod verify
	$(GO) -C tools mod tidy -diff
	$(GO) -C tools/k8s mod tidy -diff
	$(GO) -C tools/karpenter mod tidy -diff

.PHONY: tools-check
tools-check: ## the tools of tests: vet, and the tests of the runner of stages
	$(GO) -C tools vet ./...
	$(GO) -C tools test -count=1 ./stages

##@ House

.PHONY: gen
gen: asm generate crds ## write everything that is generated

.PHONY: asm
asm: ## write the vector kernels of bitmap
	$(GO) -C tools run ./asm ..

.PHONY: asm-check
asm-check: ## fail when the vector kernels are not what would be written
	$(GO) -C tools test -count=1 ./asm

.PHONY: generate
generate: ## write the Go code of the .proto files below api/
	@GO=$(GO) tools/generate

.PHONY: generate-check
generate-check: ## fail when that code is not what would be written
	@GO=$(GO) tools/generate check

CONTROLLER_GEN = $(GO) tool -modfile=tools/go.mod controller-gen paths=./api/v1alpha1

.PHONY: crds
crds: ## write the manifests and copies of the objects in api/v1alpha1
	$(CONTROLLER_GEN) object crd:crdVersions=v1 output:crd:dir=deploy/crds

.PHONY: crds-check
crds-check: ## fail when those are not what would be written
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$(CONTROLLER_GEN) crd:crdVersions=v1 output:crd:dir="$$dir" && diff -r deploy/crds "$$dir" && \
	$(CONTROLLER_GEN) object output:object:dir="$$dir" && diff api/v1alpha1/zz_generated.deepcopy.go "$$dir/zz_generated.deepcopy.go"

.PHONY: k8s-tools
k8s-tools: ## build the Kubernetes that tests run against; once on a machine, some minutes
	@CACHE=$(CACHE) GO=$(GO) tools/k8s/build

.PHONY: karpenter-tools
karpenter-tools: ## build the Karpenter that tests run against; once on a machine, some minutes
	@CACHE=$(CACHE) GO=$(GO) tools/karpenter/build

.PHONY: capi-tools
capi-tools: ## build the Cluster API that tests run against; once on a machine, some minutes
	@CACHE=$(CACHE) GO=$(GO) tools/capi/build
	@$(GO) -C tools/capi mod tidy -diff # not in tidy-check: continuous integration would download for it what it does not use

.PHONY: browser
browser: # the tests look at the page in a real browser
	@tools/browser

.PHONY: env
env: ## print what to export so that go commands by hand share what is compiled
	@echo "export GOFLAGS='$$GOFLAGS' CGO_ENABLED=$$CGO_ENABLED"

.PHONY: clean
clean: ## remove what was built; the cache of tools stays
	rm -rf bin build

# What make alone leaves out: runs of hours, and parts of other targets.
SELDOM := ^(soak-|e2e|day-|page-long|load|resident|gates-|test-(cluster|numa|avx512)|race|asm|generate|crds|platforms|.*-check$$)

.PHONY: help
help: ## show the targets that are used most
	@awk -v seldom='$(SELDOM)' 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {if ($$1 ~ seldom) more++; else printf "  make %-19s %s\n", $$1, $$2} \
	  END {printf "\nmake help-all lists %d more.\n", more}' $(MAKEFILE_LIST)

.PHONY: help-all
help-all: ## show all targets
	@$(MAKE) --no-print-directory help SELDOM=^$$
