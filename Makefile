# make help lists the targets.

GO      ?= go
PROGRAM ?= sealift
LINT    := $(GO) tool -modfile=tools/go.mod golangci-lint
VULN    := $(GO) tool -modfile=tools/go.mod govulncheck
ACTIONS := $(GO) tool -modfile=tools/workflows/go.mod actionlint
RELEASE := $(GO) tool -modfile=tools/release/go.mod goreleaser
VULN_DB ?= https://vuln.go.dev
FUZZ_FOR ?= 60s
# Only a hang takes a package that long, also on a slow machine beside other work.
TEST_LIMIT ?= 40m

# What the cross-build covers, as GOOS/GOARCH: what there are releases for.
PLATFORMS := \
	linux/amd64 linux/arm64 linux/386 linux/arm linux/riscv64 \
	darwin/amd64 darwin/arm64 \
	windows/amd64 windows/arm64

.DEFAULT_GOAL := build
.PHONY: help build test check format vet lint vuln cross bench fuzz torture snapshot release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./sealift
	CGO_ENABLED=0 $(GO) build -trimpath -o $(PROGRAM) ./cmd/sealift

# Packages whose own tests need no race detector: they build the program, some of it with
# the race detector, and run that; or they have no goroutine. Loops over bytes take many
# times as long with it.
UNWATCHED := ./cmd/sealift ./internal/rigs \
	$(addprefix ./internal/,bag choice filter hash incomplete lookup mhl/... quote report route submit units)

# make check vets separately. Without paths and cgo, as the program and its cross-builds are
# built, less is compiled; without debugging information, less is linked.
GO_TEST = GOFLAGS="$$($(GO) env GOFLAGS) -trimpath -ldflags=-w" $(GO) test -vet=off -timeout $(TEST_LIMIT)

test: ## run all tests in their short form, under the race detector where there is a C compiler
	@$(MAKE) --no-print-directory --keep-going --jobs=2 test/watched test/unwatched

# Many of these wait for disks, networks and other programs.
.PHONY: test/watched test/unwatched
test/unwatched:
	CGO_ENABLED=0 $(GO_TEST) $(UNWATCHED)

# The race detector needs cgo, and so a C compiler. By default it sleeps for a second when
# a program ends.
test/watched: export GORACE ?= atexit_sleep_ms=0
test/watched:
	@if $(GO) list -race runtime/race >/dev/null 2>&1; then race=-race; \
	else race=; echo "without the race detector, which needs cgo and a C compiler"; fi; \
	unwatched=$$($(GO) list $(UNWATCHED)) || exit; \
	watched=$$($(GO) list ./... | grep -vxF "$$unwatched"); \
	set -x; $(GO_TEST) $$race $$watched

# SKIP_TESTS=1 leaves out the tests, where they have just been run.
check: format vet lint vuln $(if $(SKIP_TESTS),,test) cross ## format, vet, lint, known vulnerabilities, test, cross-build

format:
	@unformatted=$$(gofmt -l cmd internal); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi

vet:
	$(GO) vet ./...

# actionlint hands the commands of the workflows to shellcheck, where that is installed.
# An exclusion of the linter that matches nothing is only a warning of it.
lint:
	@found=$$($(LINT) run 2>&1); code=$$?; echo "$$found"; \
	case $$found in *"Skipped 0 issues by rules"*) echo "remove that exclusion from .golangci.yml"; exit 1 ;; esac; \
	exit $$code
	$(ACTIONS) .github/workflows/*.yml # named, because a tree that is no checkout has none to find
	GO=$(GO) scripts/prose

# Without its database, which is on the network, nothing can be found: that is said,
# and is no failure.
vuln: ## look for known vulnerabilities in what the program calls
	@found=$$($(VULN) -db $(VULN_DB) ./... 2>&1); code=$$?; echo "$$found"; \
	case $$code:$$found in \
	0:*) ;; \
	1:*"govulncheck: fetching vulnerabilities: "*) \
		echo "NOT CHECKED for known vulnerabilities: $(VULN_DB) cannot be reached" ;; \
	*) exit $$code ;; \
	esac

cross: $(addprefix cross/,$(PLATFORMS))

# Vet type-checks the tests as well; one processor of each system will do, and one of 32
# bits. Without paths, because releases are built so and the same packages need not be
# built twice.
VETTED := linux/386 darwin/arm64 windows/amd64
.PHONY: $(addprefix cross/,$(PLATFORMS))
$(addprefix cross/,$(PLATFORMS)): cross/%:
	@echo "cross-build $*"
	@export CGO_ENABLED=0 GOOS=$(word 1,$(subst /, ,$*)) GOARCH=$(word 2,$(subst /, ,$*)); \
	$(GO) build -trimpath -o /dev/null ./cmd/sealift$(if $(filter $*,$(VETTED)), && $(GO) vet -trimpath ./...)

bench: ## compare whole commands with those of other tools (COMPARE=PROGRAM: with an older sealift)
	scripts/bench $(if $(COMPARE),--compare $(COMPARE))

# A package can be fuzzed by one target at a time. Making inputs smaller, which can
# take a minute each, is not the work.
fuzz: ## run every fuzz target for FUZZ_FOR (60s)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_FOR) -fuzzminimizetime 2s $$package; \
		done; \
	done

# Rigs measure, so they run one after another. CONTRIBUTING.md explains the variables.
RIGS ?= .
torture: export SEALIFT_RIGS = long
torture: export SEALIFT_SWEEP = all
torture: export SEALIFT_SCRIPTS = all
torture: export SEALIFT_LARGE = 1
torture: export SEALIFT_HISTORIES ?= 5000
torture: export SEALIFT_STOPS ?= 500
torture: export SEALIFT_SIGNALS ?= 100
torture: export SEALIFT_STORM ?= 20
torture: ## run the long form of the tests that have one, an hour or two (RIGS=PowerCut: only such rigs)
	$(GO) test -count=1 -timeout 3h -parallel 1 -v -run '$(RIGS)' ./internal/rigs
	$(if $(filter .,$(RIGS)),$(GO) test -count=1 -timeout 3h -p 1 -run 'TestFaultSweep|TestFaultsWhere|TestDryRunReadsTheJournal|TestResumedDigests|TestAKilled|TestExchanged|ThroughAMapping|PowerCut|AfterAFault|TestCancellation|TestModel|TestProperty|TestSignals|TestStorm|Stopped|Unquoted|TestScript' ./internal/engine ./internal/model ./internal/cli ./cmd/sealift)
	$(if $(filter .,$(RIGS)),$(GO) test -count=1 -timeout 1h -p 1 ./internal/compare ./internal/fsys ./internal/journal ./internal/manifest ./internal/progress ./internal/shard ./internal/usage)

snapshot: ## build what a release would consist of into dist/, and check it (TWICE=1: compare two builds)
	GO=$(GO) scripts/snapshot $(if $(TWICE),--twice)

# In the workflow of releases, on a tag: see docs/releasing.md.
release:
	$(RELEASE) release --clean

clean: ## remove what the targets make
	rm -rf sealift bin build dist
