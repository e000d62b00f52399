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

# make run
RUNG ?= tiny
TRACE ?=
LISTEN ?= 127.0.0.1:8080
ARGS ?=
TRACE_ARGS ?= --arrivals-only --speed 36000x

# make nightly, make fuzz, make bench
FLEETS ?= 200000
FUZZ_TIME ?= 3000x
BENCH ?= .
BENCH_TIME ?= 1s

CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/tonnage
LINT_KEY = $(shell { cat tools/lint/go.mod tools/lint/go.sum; $(GO) env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16)
LINT = $(CACHE)/lint/$(LINT_KEY)/golangci-lint
FUNCTIONS := ./alloc ./bitmap ./columnar ./benches

##@ Use

.PHONY: run
run: build ## start everything on http://127.0.0.1:8080 (RUNG=tiny|5k|50k, TRACE=dir, LISTEN=host:port, ARGS="…")
	exec $(BIN) up --listen $(LISTEN) $(if $(TRACE),--trace $(TRACE) $(TRACE_ARGS),--rung $(RUNG)) $(ARGS)

.PHONY: build
build: ## build bin/tonnage
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/tonnage

##@ Test

.PHONY: test
test: browser ## run all tests
	$(GO) test ./...

.PHONY: scenarios
scenarios: build ## run the acceptance scenarios against the binary (SHARED=../shared)
	@if [ ! -f $(SHARED)/scenarios/run.py ]; then \
	  echo "no scenarios at $(SHARED)/scenarios; put the shared folder beside this checkout, or name it: make scenarios SHARED=DIR" >&2; exit 1; fi
	@command -v python3 >/dev/null || tools/need python3
	python3 $(SHARED)/scenarios/run.py --bin $(BIN) $(SHARED)/scenarios --only '^(?!gangs-)'

.PHONY: race
race: browser ## run the tests under the race detector, with the checks of lent memory
	@command -v gcc >/dev/null || tools/need gcc libc6-dev
	CGO_ENABLED=1 $(GO) test -race -short -tags invariants -timeout 20m ./...

.PHONY: fuzz
fuzz: ## fuzz every target for some inputs (FUZZ_TIME=3000x, or 1m)
	@tools/fuzz $(FUZZ_TIME)

.PHONY: nightly
nightly: ## compare engine and reference on many more random fleets (FLEETS=200000)
	$(GO) test ./engine -run EqualsReference -fleets $(FLEETS) -timeout 10h

.PHONY: gates
gates: ## hold plans, candidates looked at and allocations to what is written down
	$(GO) test -count=1 -run 'Alloc|Gates' ./benches ./alloc ./bitmap ./columnar ./engine/model

.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp, BENCH_TIME=1s); bin/tonnage bench measures one rung
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCH_TIME) -benchmem $(FUNCTIONS)

##@ Check

.PHONY: check
check: fmt-check vet lint arch tidy-check ## format, vet, linters, architecture rules, tidiness

.PHONY: fmt-check
fmt-check: ## fail when a file is not formatted
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs -r ls -d 2>/dev/null | xargs -r gofmt -l); \
	if [ -n "$$files" ]; then echo "not formatted (gofmt -w mends it):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet, with and without the invariants tag
	$(GO) vet ./...
	$(GO) vet -tags invariants ./...

.PHONY: lint
lint: $(LINT) ## run the linters
	GOLANGCI_LINT_CACHE=$(CACHE)/lint/findings $(LINT) run ./...

$(LINT):
	@echo "building golangci-lint; this is done once on a machine"
	@mkdir -p $(@D)
	cd tools/lint && CGO_ENABLED=0 $(GO) build -trimpath -o $@.new github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@mv $@.new $@

.PHONY: arch
arch: ## imports and habits of the house
	$(GO) test -count=1 ./internal/archtest

.PHONY: tidy-check
tidy-check: ## fail when go.mod or go.sum would change
	$(GO) mod tidy -diff
	$(GO) mod verify
	cd tools/lint && $(GO) mod tidy -diff

##@ House

.PHONY: gen
gen: ## nothing is generated yet
	@echo "nothing to do: no file of this tree is generated"

.PHONY: browser
browser: # the tests look at the page in a real browser
	@tools/browser

.PHONY: clean
clean: ## remove what was built; the cache of tools stays
	rm -rf bin build

.PHONY: help
help: ## show this
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
