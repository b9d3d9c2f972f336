# Parley. `make demo` shows the main job, `make test` passes the tests; both
# need Go and make alone.

export CGO_ENABLED ?= 0
GO ?= go
FUZZTIME ?= 30s
PREFIX ?= /usr/local

# Tools of the checks, pinned. They never enter go.mod.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: all build demo test race vet lint fmt vuln fuzz bench bench-store bench-relay bench-receipt bench-carriers secp256k1 drill golden npm install clean

all: build

build:
	$(GO) build -trimpath -o bin/ ./cmd/...

demo:
	@echo "Building Parley (the first build takes a few minutes, in silence) ..."
	@$(GO) test -c -o bin/demo.test .
	@bin/demo.test -test.run '^TestDemo$$' -demo

test:
	$(GO) test ./...

# -short: few points of the tests that kill and cut, all of which `test` visits.
race:
	CGO_ENABLED=1 $(GO) test -race -short -timeout 25m ./...

vet:
	$(GO) vet ./...

lint: vet
	$(GO) run $(STATICCHECK) ./...
	@test -z "$$($(GO) run $(GOFUMPT) -l .)" || { echo "not formatted; run make fmt:"; $(GO) run $(GOFUMPT) -l .; exit 1; }

fmt:
	$(GO) run $(GOFUMPT) -w .

vuln:
	GOVULNCHECK=$(GOVULNCHECK) .ci/vuln

fuzz:
	.ci/fuzz $(FUZZTIME)

bench:
	$(GO) test -run '^$$' -bench . -benchtime 1s ./...

# Durable writes beside plain commits to the same database, both stores of the
# relay, and 10,000 messages drained after an outage, as ratios of one run.
bench-store:
	$(GO) test -run '^$$' -bench 'Write|Store' -benchtime 2s ./internal/database ./relay
	$(GO) test -run '^$$' -bench Drain -benchtime 10000x ./carrier/nostr

# The relay beside relays of others, each in a process of its own, as Markdown;
# about ten minutes. BENCH=quick shows that it runs, REPETITIONS=1 is a short form.
# The others are a module of their own and never enter go.mod.
bench-relay:
	@cd testdata/bench-relay && $(GO) run .

# Issuing and verifying receipts as a share of the bare signature, durable appends
# to their log beside bare rows, proofs of a log of a million entries, which takes
# a minute or two to fill for each kind of database.
bench-receipt:
	$(GO) test -run '^$$' -bench 'Issue|Verify' -benchtime 1s ./protocol/receipt
	$(GO) test -run '^$$' -bench Append -benchtime 2s ./internal/merklelog
	$(GO) test -run '^$$' -bench Proof -benchtime 1s -timeout 30m ./internal/merklelog

# Envelopes over MQTT, ntfy and HTTPS beside bare publishes and bare rows, and
# bridges, as ratios of one run; a few minutes. MQTT needs mosquitto.
bench-carriers:
	$(GO) test -run '^$$' -bench Send -benchtime 10000x ./mqttbridge
	$(GO) test -run '^$$' -bench Bridge -benchtime 5000x ./mqttbridge
	$(GO) test -run '^$$' -bench IdleTopics -benchtime 1x ./mqttbridge
	$(GO) test -run '^$$' -bench 'Publish|Frames' -benchtime 3000x ./ntfybridge
	$(GO) test -run '^$$' -bench . -benchtime 2000x ./carrier/https ./carrier/bridge

# The relay with signatures checked in C. It needs a C compiler.
secp256k1:
	CGO_ENABLED=1 $(GO) build -tags libsecp256k1 ./cmd/...
	CGO_ENABLED=1 $(GO) test -tags libsecp256k1 ./relay

# The long, seeded versions of the tests that kill, flood and wait.
drill:
	PARLEY_DRILL=1 $(GO) test -count=1 -timeout 60m ./...

golden:
	$(GO) test ./protocol/... -update

npm:
	cd testdata/npm && npm ci --no-audit --no-fund

install:
	install -d $(DESTDIR)$(PREFIX)/bin
	install bin/parley bin/parleyd $(DESTDIR)$(PREFIX)/bin

clean:
	rm -rf bin
