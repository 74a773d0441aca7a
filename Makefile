# Everything a developer runs. `make` alone lists it.
#
# Tools are built into bin/ at the versions below, their names carrying the
# version: a later run finds them, a new version builds a new one.
GOLANGCI_LINT := bin/golangci-lint-v2.15.0
STATICCHECK   := bin/staticcheck-v0.8.2
GOFUMPT       := bin/gofumpt-v0.12.0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

FUZZTIME ?= 10s
PACKAGES ?= ./...
ARGS     ?=

.DEFAULT_GOAL := help
.PHONY: help run test check lint fuzz bench chaos interop build redis valkey fmt tidy-check fmt-check vet staticcheck

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## a whole world in one process: the demo
	go run ./cmd/sidecar demo $(ARGS)

test: ## all tests, race detector on, over a real Redis (ARGS="-run X", PACKAGES=./proxy)
	@scripts/test.sh $(ARGS) $(PACKAGES)

check: tidy-check fmt-check vet staticcheck test fuzz ## what to run before a commit

lint: $(GOLANGCI_LINT) staticcheck ## golangci-lint and staticcheck
	$(GOLANGCI_LINT) run

fuzz: ## every fuzz target for FUZZTIME each (PACKAGES=./proxy narrows)
	@scripts/fuzz.sh $(FUZZTIME) $(PACKAGES)

bench: ## what the sidecar and its stores cost: latency, throughput, commands
	go run ./bench $(ARGS)

chaos: ## kill -9 of sidecars and Redis under load, then balanced books (10 minutes; ARGS=-short is CI's part)
	go run ./chaos $(ARGS)

interop: ## real SDKs, straight and through the sidecar (ARGS=-short is CI's part)
	@scripts/interop.sh $(ARGS)

build: ## a static binary: bin/sidecar
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/sidecar ./cmd/sidecar

redis: ## install redis-server for the tests, if it is missing
	@scripts/need.sh redis-server

valkey: ## install valkey-server, which the tests then run over too
	@scripts/need.sh valkey-server

fmt: $(GOFUMPT) ## format the sources
	$(GOFUMPT) -w .

tidy-check:
	go mod tidy -diff

fmt-check: $(GOFUMPT)
	@bad=$$($(GOFUMPT) -l .); [ -z "$$bad" ] || { echo "not formatted (make fmt):"; echo "$$bad"; exit 1; }

vet:
	go vet ./...

staticcheck: $(STATICCHECK)
	$(STATICCHECK) ./...

$(GOLANGCI_LINT):
	@scripts/tool.sh $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(STATICCHECK):
	@scripts/tool.sh $@ honnef.co/go/tools/cmd/staticcheck

$(GOFUMPT):
	@scripts/tool.sh $@ mvdan.cc/gofumpt
