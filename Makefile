# make check is what CI runs. It needs Go, a C compiler for the race detector, and PostgreSQL's programs. make quick needs Go.
GO ?= go
TOOL = $(GO) tool -modfile=tools.mod

.PHONY: check quick format vet lint test race chaos scenarios alerts fuzz bench figures browser screens recording build

check: format vet lint test race

# Unit tests alone: no database but where a test of a room needs one, no real processes, no race detector.
SLOW = /(cmd|examples)/|/internal/(chaos|sim|pgtest|store/(postgres|sqlite))$$
quick: format vet
	ROTA_POSTGRES=skip $(GO) test -short $$($(GO) list ./... | grep -vE '$(SLOW)')

# Tests and tools allocate much and keep little: collected a quarter as often, they take less time (the simulation a sixth
# less CPU). Benchmarks and figures are measured as programs run.
vet lint test race: export GOGC = 400

format:
	@out=$$($(GO)fmt -l .); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

# What runs by itself only is to compile all the same.
vet:
	$(GO) vet ./...
	$(GO) vet -tags chaos ./internal/chaos
	$(GO) vet -tags scenarios ./internal/scenarios
	cd otel && $(GO) vet ./...

# esbuild, which the bundle of the console is made with, is a tool as staticcheck is: it is built once.
lint:
	$(TOOL) staticcheck ./...
	cd otel && $(GO) tool -modfile=../tools.mod staticcheck ./...
	ROTA_BUNDLE=must $(GO) test -count 1 -run Bundle ./internal/console

# Each package is tested whole once. Those that know of -short, as they take long or measure memory, are tested as they
# are, and in short under the race detector; all others under the race detector only. What takes longest comes first,
# so that no core waits for it in the end, and what mostly waits for time to pass, as cmd/rota, beside what computes. Real
# databases on a busy machine may take longer than Go's ten minutes.
# The folder otel is a module of its own, which ./... does not reach.
LONG = ./cmd/rota ./internal/store/postgres ./internal/sim . ./internal/store/sqlite ./internal/store/model ./internal/store/walk
SHORTENED = $(shell grep -rlE --include='*.go' 'testing\.Short\(\)|story\.(Often|Whole)' . | xargs -n 1 dirname | sort -u)
# Nobody debugs these programs: without tables for debuggers each links in half the time, and there are over a hundred.
CHECKED = -vet=off -timeout 25m -ldflags='-s -w'
test:
	ROTA_POSTGRES=must $(GO) test $(CHECKED) $(LONG) $(SHORTENED)
	cd otel && $(GO) test $(CHECKED) ./...

# The race detector needs a C compiler; the rest of rota does not. SQLite, translated from C, is left as it is: its
# memory is none that the detector watches, so it would only be five times slower. By default a watched process also
# sleeps for a second before it ends, and the stories have hundreds.
UNWATCHED = -gcflags='modernc.org/...=-race=false'
race:
	ROTA_POSTGRES=must CGO_ENABLED=1 GORACE=atexit_sleep_ms=20 $(GO) test -race $(UNWATCHED) -short $(CHECKED) $(LONG) ./...
	cd otel && CGO_ENABLED=1 GORACE=atexit_sleep_ms=20 $(GO) test -race $(UNWATCHED) -short $(CHECKED) ./...

# Real processes and real faults, two at a time, on real PostgreSQL servers; it takes about twelve minutes. A seed that it printed, longer,
# one test only: make chaos RUN=Pairs SEED=7 FOR=2h
RUN ?= .
FOR ?= 2m
FAILOVERS ?= 10
SEED ?= 0
chaos:
	$(GO) vet -tags chaos ./internal/chaos
	$(GO) test -tags chaos -count 1 -timeout 0 -v -run '$(RUN)' ./internal/chaos -for $(FOR) -failovers $(FAILOVERS) -seed $(SEED)

# What five documents describe, played by the real binary, three scenarios at a time, which mostly wait: make scenarios RUN=Stories/003/drain
scenarios:
	$(GO) vet -tags scenarios ./internal/scenarios
	$(GO) test -tags scenarios -count 1 -timeout 10m -parallel 3 -run '$(RUN)' ./internal/scenarios

# The alert rules for Prometheus, by its own promtool (on Debian: apt install prometheus)
alerts:
	cd docs/monitoring && promtool check rules alerts.yml && promtool test rules alerts_test.yml

# Each fuzz target for a while: make fuzz TIME=1m
TIME ?= 20s
fuzz:
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(TIME) $$p || exit 1; \
		done; \
	done

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Measures and writes docs/figures.md, and the copies of its tables in other pages: make figures ONLY=sqlite,postgres RUNS=5
RUNS ?= 3
SECONDS ?= 6s
ONLY ?=
STORE ?=
DOCS ?= $(CURDIR)/docs
figures:
	cd bench && $(GO) run . figures -runs $(RUNS) -seconds $(SECONDS) -only '$(ONLY)' -store '$(STORE)' -docs '$(DOCS)'

# The console in Debian's chromium, which the script installs, with npm's playwright-core and axe-core: make browser TASKS=0,10,1000000
TASKS ?= 0,10
browser:
	internal/console/browser/run --tasks '$(TASKS)'

# Pictures of every screen in both themes, docs/screens/*.png; the node works for two minutes first.
screens:
	internal/console/browser/run --screens '$(CURDIR)/docs/screens'

# What `rota demo` shows on a terminal, docs/img/demo.svg; on Linux
recording:
	$(GO) test -count 1 ./internal/recording -run Demo -update

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o rota ./cmd/rota
