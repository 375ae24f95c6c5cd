# Everything a person or a build machine does here. `make help` lists it.
GO ?= go
BIN ?= bin
PKGS ?= ./...

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binary into bin/
	$(GO) build -o $(BIN)/tierlock ./cmd/tierlock

demo: build ## the story in one command: a store that slows, fills, dies and comes back
	$(BIN)/tierlock demo

servers: ## install what the real-server tests start: Redis, Kafka, a Nacos server, PostgreSQL, MariaDB, promtool
	@bash scripts/servers.sh

test: servers ## every test, race detector on, against real servers
	TIERLOCK_SERVERS=real bash scripts/test.sh

quick: ## the tests that need nothing but Go; says what it left out
	bash scripts/test.sh

lint: ## the linters of .golangci.yml, installed when missing
	bash scripts/lint.sh

fmt: ## format every file the way the linters want it
	bash scripts/lint.sh fmt

soak: servers flink trace ## the long ones: many rounds, minutes of faults on a real Redis, Flink, a month of trace
	TIERLOCK_SERVERS=real TIERLOCK_SOAK=1 $(GO) test -race -timeout 60m -run 'Soak|TestAHolderIsKilled|TestARestartForgets|TestEverythingAtOnceThroughClose' $(PKGS)
	cd test && TIERLOCK_SERVERS=real TIERLOCK_SOAK=1 $(GO) test -race -timeout 60m -run Soak ./history ./flink
	cd test && TIERLOCK_SERVERS=real TIERLOCK_SOAK=1 $(GO) test -race -timeout 120m -p 1 ./faults ./drills

mutants: servers ## take the mechanisms of the degradation loop, of audit and of reconcile out, one at a time: a test must notice each
	cd test && TIERLOCK_SERVERS=real $(GO) run ./mutants

bench: ## lock and unlock beside other libraries, on one real Redis
	cd bench && $(GO) run . locks

flink: ## fetch the jars of a Flink inside one process, for the soak (not started)
	@bash scripts/flink.sh

trace: ## make trace.csv from the public retail data set (not committed)
	bash scripts/trace.sh trace.csv

clean: ## remove what was built
	rm -rf $(BIN) build

.PHONY: help build demo servers test quick lint fmt soak mutants bench flink trace clean
