# make help lists the targets.

GO      ?= go
LINT    := $(GO) tool -modfile=tools/go.mod golangci-lint
FUZZ_FOR ?= 60s

# What the cross-build covers, as GOOS/GOARCH.
PLATFORMS := \
	linux/amd64 linux/arm64 linux/386 linux/arm \
	darwin/amd64 darwin/arm64 \
	windows/amd64 windows/arm64 \
	freebsd/amd64

.DEFAULT_GOAL := build
.PHONY: help build test check format vet lint cross bench fuzz torture snapshot clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./sealift
	CGO_ENABLED=0 $(GO) build -trimpath -o sealift ./cmd/sealift

# The race detector needs cgo, and that a C compiler.
test: ## run all tests, under the race detector where there is a C compiler
	@if $(GO) list -race runtime/race >/dev/null 2>&1; then race=-race; \
	else race=; echo "without the race detector, which needs cgo and a C compiler"; fi; \
	set -x; $(GO) test $$race ./...

# SKIP_TESTS=1 leaves out the tests, where they have just been run.
check: format vet lint $(if $(SKIP_TESTS),,test) cross ## format, vet, lint, test, cross-build

format:
	@unformatted=$$(gofmt -l cmd internal); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi

vet:
	$(GO) vet ./...

lint:
	$(LINT) run

cross: $(addprefix cross/,$(PLATFORMS))

# The pattern of a platform: vet type-checks the tests as well.
.PHONY: $(addprefix cross/,$(PLATFORMS))
$(addprefix cross/,$(PLATFORMS)): cross/%:
	@echo "cross-build $*"
	@export CGO_ENABLED=0 GOOS=$(word 1,$(subst /, ,$*)) GOARCH=$(word 2,$(subst /, ,$*)); \
	$(GO) build -o /dev/null ./cmd/sealift && $(GO) vet ./...

bench: ## compare whole commands with those of other tools (see docs/benchmarks.md)
	scripts/bench

# A package can be fuzzed by one target at a time.
fuzz: ## run every fuzz target for FUZZ_FOR (60s)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_FOR) $$package; \
		done; \
	done

torture: ## let every system call of whole commands fail once (tens of minutes)
	scripts/torture

snapshot: ## build release archives into dist/, without releasing
	@command -v goreleaser >/dev/null || { echo "goreleaser is not installed; see https://goreleaser.com/install"; exit 1; }
	goreleaser release --snapshot --clean

clean: ## remove what the targets make
	rm -rf sealift bin dist
