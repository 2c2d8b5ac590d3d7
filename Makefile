# evalfleet: what a developer runs. `make` lists it.

GOLANGCI_LINT_VERSION := v2.15.0
TOOLS := $(CURDIR)/.tools
GOTESTSUM_VERSION := v1.13.0
GOVULNCHECK_VERSION := v1.9.0
CYCLONEDX_VERSION := v1.9.0
CYCLONEDX := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)
GOTESTSUM := $(TOOLS)/gotestsum-$(GOTESTSUM_VERSION)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/evalfleet
	go build -trimpath -o bin/evalfleet ./cmd/evalfleet

.PHONY: extras
extras: build ## write the manual pages to bin/man, and completions to bin/completions
	rm -rf bin/man bin/completions
	bin/evalfleet man bin/man
	mkdir bin/completions
	bin/evalfleet completion bash > bin/completions/evalfleet.bash
	bin/evalfleet completion zsh > bin/completions/_evalfleet
	bin/evalfleet completion fish > bin/completions/evalfleet.fish
	bin/evalfleet completion powershell > bin/completions/evalfleet.ps1

GORELEASER_VERSION := v2.15.1
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)

.PHONY: sbom-tool
sbom-tool: $(CYCLONEDX)

# The image needs Docker's buildx, signatures need cosign and an identity.
.PHONY: snapshot
snapshot: $(GORELEASER) ## build what a release consists of into dist/, without image and signatures, and run the program of the archive in an empty root
	HOMEBREW_TAP_TOKEN= $< check
	HOMEBREW_TAP_TOKEN= $< release --snapshot --clean --skip=docker,sign,publish
	cd deploy/check && go test -count 1 -run '^TestArchive' . -dist $(CURDIR)/dist

# With the identity and the tokens of the workflow `release`, which calls it.
.PHONY: release
release: $(GORELEASER) ## build, sign and draft the release of the tag on this commit: NOTES=file
	$< release --clean --release-notes "$(NOTES)"

$(GORELEASER):
	GOBIN=$(TOOLS) go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	mv $(TOOLS)/goreleaser $@

.PHONY: redis
redis: ## install redis-server where it is missing (REDIS_SERVER=/path uses another one)
	@sh tools/scripts/ensure.sh redis

# What every test needs. Servers are installed as root on Debian and Ubuntu, and on macOS.
.PHONY: servers
servers:
	@sh tools/scripts/ensure.sh redis postgres

# The packages whose tests take longest start first, so that none of them is left running alone.
PACKAGES := ./cmd/evalfleet ./worker ./ratelimit ./internal/results ./enqueue ./...

# A wait in a test ends at this deadline and not before, however busy the machine is.
.PHONY: test
test: servers ## run every test that takes seconds, in at most 4 minutes with everything to compile
	go test -short -vet=off -timeout 30m $(PACKAGES)
	cd tools/providers && go test -vet=off ./...

# Two at a time, because the tests mostly wait. The output of each comes as a whole. The longest,
# race, starts first: it would wait for servers once more, and be last, without -o.
.PHONY: check
check: servers ## prove everything: race, vet, vuln, check-deploy, conformance, each benchmark once, two schedules of chaos, the Python package
	$(MAKE) -o servers race # alone: what it waits for has its time limits
	$(MAKE) -j 2 -o servers $(if $(filter output-sync,$(.FEATURES)),--output-sync) vet vuln check-deploy conformance bench-once test-python test-npm chaos SEEDS=2

.PHONY: race
race: servers ## run every test, the slow ones too, with the race detector and in random order
	go test -race -shuffle=on -vet=off -timeout 30m $(PACKAGES)
	cd tools/providers && go test -race -shuffle=on -vet=off ./...

# The first Python with pytest: python3 may be another than that of Debian's packages.
.PHONY: test-python
test-python: redis build ## run the tests of the Python package (clients/python) with the program of this tree, and check its types
	@cd clients/python && for python in $(PYTHON) python3 /usr/bin/python3; do \
		$$python -c 'import pytest' 2>/dev/null || continue; \
		EVALFLEET_BINARY=$(CURDIR)/bin/evalfleet $$python -B -m pytest -q -rs -p no:cacheprovider || exit; \
		$$python -c 'import mypy' 2>/dev/null && exec $$python -m mypy --cache-dir=/dev/null; \
		echo "NOT TESTED: types of clients/python: there is no mypy: apt-get install mypy" >&2; exit 0; \
	done; echo "NOT TESTED: clients/python: there is no pytest: apt-get install python3-pytest python3-pandas python3-venv mypy" >&2

.PHONY: test-npm
test-npm: build ## install the npm packages (clients/npm) with the program of this tree, and run it with npx
	@command -v npm python3 >/dev/null || { echo "NOT TESTED: clients/npm: there is no npm: apt-get install npm" >&2; exit 0; }; \
	EVALFLEET_BINARY=$(CURDIR)/bin/evalfleet node --test clients/npm/test.mjs

# Only what has a benchmark is linked.
.PHONY: bench-once
bench-once: servers
	go test -vet=off -run '^$$' -bench . -benchtime 1x -timeout 30m \
		$$(go list -f '{{$$dir := .Dir}}{{range .TestGoFiles}}{{$$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$dir}}/{{.}}{{"\n"}}{{end}}' ./... \
			| xargs grep -l '^func Benchmark' | xargs -n 1 dirname | sort -u)
	cd bench && go test -vet=off -bench . -benchtime 1x -timeout 30m ./...

.PHONY: slowest
slowest: servers $(GOTESTSUM) ## print the 30 slowest tests of make test
	go test -short -count 1 -json -timeout 30m ./... > .slowest.json; \
		status=$$?; $(GOTESTSUM) tool slowest --num 30 --threshold 100ms --jsonfile .slowest.json; rm .slowest.json; exit $$status

ROUNDS := 5
.PHONY: stress
stress: servers ## run make test's tests 5 times (ROUNDS=5) with one thread and 5 times beside 16 busy processes
	@sh tools/scripts/stress.sh $(ROUNDS)

# Without the cache, which sees no file outside of the module.
.PHONY: check-deploy
check-deploy: ## build what the Dockerfile builds; check it, compose, the chart, manifests, alerts, dashboard and their pages
	@sh tools/scripts/ensure.sh redis prometheus
	cd deploy/check && go vet ./... && go test -count 1 -timeout 30m .

# Compiled and downloaded before: an engine of the script's own has no network outside of it.
.PHONY: containers
containers: redis ## start docker-compose.yml in a Docker engine, let faults strike, and count at the simulator (about 20 minutes; IMAGE=name starts an image of the engine instead of building one, FAULTS=regexp chooses faults)
	@sh tools/scripts/ensure.sh docker
	go mod download
	go test -C deploy/check -c -o $(CURDIR)/bin/containers.test ./containers
	cd deploy/check/containers && sh $(CURDIR)/tools/scripts/engine.sh $(CURDIR)/bin/containers.test -test.v -test.run '^TestContainers$$' -test.timeout 3h $(if $(IMAGE),-image $(IMAGE)) $(if $(FAULTS),-faults '$(FAULTS)')

# A cluster that is given has its images from a registry, and needs no engine.
.PHONY: cluster
cluster: ## install the chart in the cluster of KUBECONFIG, with the image IMAGE=registry/name:tag, or in a node that is set up for it; let faults strike, and count at the simulator (about 20 minutes)
	@[ -n "$$KUBECONFIG" ] || sh tools/scripts/ensure.sh redis docker node
	go mod download
	go test -C deploy/check -c -o $(CURDIR)/bin/containers.test ./containers
	sh tools/scripts/node.sh
	cd deploy/check/containers && $(if $(KUBECONFIG),,sh $(CURDIR)/tools/scripts/engine.sh) sh $(CURDIR)/tools/scripts/node.sh $(CURDIR)/bin/containers.test -test.v -test.run '^TestCluster$$' -test.timeout 3h $(if $(IMAGE),-image $(IMAGE)) $(if $(FAULTS),-faults '$(FAULTS)')

.PHONY: schemas
schemas: ## write the JSON Schemas of evaluation and fleet files, also into the chart, from internal/config/schema.yaml, and those of the API and of estimates
	go run ./cmd/evalfleet schema evaluation > docs/evaluation.schema.json
	go run ./cmd/evalfleet schema fleet > docs/fleet.schema.json
	go test ./internal/web -count 1 -run '^TestAPISchema$$' -update
	go test ./cmd/evalfleet -count 1 -run '^TestEstimateSchema$$' -update
	cd deploy/check && go test -count 1 -run '^TestChartChecksFleet$$' . -update

.PHONY: manifests
manifests: ## render deploy/k8s from the Helm chart
	cd deploy/check && go test -count 1 -run '^TestManifests$$' . -update

# RECORDINGS is a folder with checkouts of client libraries, or copies of their cassettes.
.PHONY: replay
replay: ## have the dialects read recorded answers of providers, and compare with what the recordings say: RECORDINGS=folder
	go build -C tools/providers -o ../../bin/ ./replay
	bin/replay $(RECORDINGS)

# Without the race detector, with which the SDKs take minutes to build.
HELM_DOCS_VERSION := v1.14.2
HELM_DOCS := $(TOOLS)/helm-docs-$(HELM_DOCS_VERSION)

# SOURCE is a clone of github.com/pydantic/genai-prices. Nothing is committed.
.PHONY: prices
prices: ## write the generated parts of the tables of prices and models, and show what is left out, why, and the difference: SOURCE=clone of pydantic/genai-prices
	go build -C tools/providers -o ../../bin/ ./prices
	bin/prices "$(SOURCE)" providers/catalog
	git --no-pager diff -- providers/catalog/prices_generated.yaml providers/catalog/models_generated.yaml

.PHONY: chart-readme
chart-readme: $(HELM_DOCS) ## write the chart's README from the comments in values.yaml
	cd deploy/helm && $< --sort-values-order file --chart-to-generate evalfleet

$(HELM_DOCS):
	GOBIN=$(TOOLS) go install github.com/norwoodj/helm-docs/cmd/helm-docs@$(HELM_DOCS_VERSION)
	mv $(TOOLS)/helm-docs $@

.PHONY: conformance
conformance: ## have the providers' official SDKs judge the simulator and what the dialects send
	cd bench/conformance && go test -timeout 30m .

.PHONY: vet
vet: ## vet for Linux, macOS and Windows, and check the modules against go.sum
	go mod verify
	go vet ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go vet ./...
	cd bench && go vet ./...
	cd tools/providers && go vet ./...
	go vet -tags look ./internal/report ./internal/web ./internal/testing/looktest ./cmd/evalfleet

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION) ## run golangci-lint
	$< run ./...
	cd deploy/check && $< run ./...
	cd bench && $< run ./...
	cd bench/conformance && $< run ./...
	cd tools/providers && $< run ./...

$(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(TOOLS)/golangci-lint $@

# Without its database govulncheck knows nothing: that is said, and only then no failure.
.PHONY: vuln
vuln: $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION) ## look for known vulnerabilities in what is called
	@$< ./... >$(TOOLS)/vuln.log 2>&1; code=$$?; cat $(TOOLS)/vuln.log; \
	if grep -q 'fetching vulnerabilities' $(TOOLS)/vuln.log; then echo "WARNING: NOT CHECKED for known vulnerabilities: the database cannot be reached" >&2; \
	else exit $$code; fi

$(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION):
	GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	mv $(TOOLS)/govulncheck $@

# From the program, so that only what is in it is listed, with the versions that are.
.PHONY: sbom
sbom: build $(CYCLONEDX) ## write what the program is made of, with licences, as CycloneDX: bin/sbom.json
	$(CYCLONEDX) bin -json -licenses -assert-licenses -version "$$(git describe --always --dirty)" -output bin/sbom.json bin/evalfleet

# Needs jq.
.PHONY: licences
licences: sbom ## list the licence of each module in the program: bin/licences.txt; fails where none is detected
	jq -r '.components[] | [.name, .version, ([.licenses[]?.license | .id // .name] | join(" "))] | @tsv' bin/sbom.json > bin/licences.txt
	cat bin/licences.txt
	@jq -e 'all(.components[]; .licenses)' bin/sbom.json > /dev/null || { echo "modules above have no licence that is known" >&2; exit 1; }

$(CYCLONEDX):
	GOBIN=$(TOOLS) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)
	mv $(TOOLS)/cyclonedx-gomod $@

$(GOTESTSUM):
	GOBIN=$(TOOLS) go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	mv $(TOOLS)/gotestsum $@

.PHONY: fleet
fleet: redis ## the fleet tests at full size, with their bounds on rates and times (about 10 minutes)
	go test -v -timeout 30m -parallel 4 -run "Fleet|Frozen|Capped|RedisCommands|Limit|CallsStart|LostAnswers|Unaffected|EstimateIs" ./cmd/evalfleet -full-fleet
	go test -v -timeout 5m -run "TwiceTheAllowedRate|LineBeforeALimit|AdaptiveConcurrency" ./worker -full

.PHONY: hostile
hostile: redis ## a hostile provider and hostile documents in a fleet of four workers for a minute
	go test -v -timeout 10m -run '^TestHostileFleet$$' ./cmd/evalfleet -full-fleet

SEEDS := 200
.PHONY: chaos
chaos: servers ## run 200 random schedules of faults (SEEDS=200) against a fleet, judged from outside (about an hour)
	go test -v -timeout 6h -run '^TestChaos$$' ./cmd/evalfleet -chaos-seeds $(SEEDS)

EVALUATIONS := 1000
.PHONY: faults
faults: servers ## plant a fault for each of some promises, and see the promise's test fail (about an hour; ONLY=regexp of tests)
	go test -v -timeout 3h -run '^TestFaultsTurnTestsRed$$' ./tools/faults -full -only "$(ONLY)"

.PHONY: coverage
coverage: ## how often intervals, headlines and lines of trust hold the truth: 1,000 simulated evaluations of each kind (some minutes; EVALUATIONS=1000)
	go test -v -run '^(TestCoverage|TestEscalationCovers|TestUntil|TestPlacing)$$' -timeout 90m ./eval/rank -full -evaluations $(EVALUATIONS)
	go test -v -run '^TestTrustIsRight$$' -timeout 90m ./internal/report -full

# What a minute more of shrinking would find is not worth the inputs not tried.
FUZZTIME := 10m
.PHONY: fuzz
fuzz: redis ## every fuzz test for FUZZTIME, 10 minutes: limiter scripts, answers, verdicts, files
	grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sed 's|/[^/]*:func | |' | sort | while read -r package test; do \
		echo "$$package $$test"; go test -run '^$$' -fuzz "^$$test\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x -timeout 30m "$$package" || exit 1; done

# ulimit bounds the private memory of each process, the fuzz engine's included. The engine keeps a
# buffer of 100 MB for each worker, in the worker and in the coordinator. With the usual GOGC, heaps
# grow to twice that before they are collected. Without cgo, no stacks of 8 MB a thread count.
UPLOADTIME := 200s
.PHONY: fuzz-uploads
fuzz-uploads: ## uploads as tar, gzip and JSON for UPLOADTIME each, 200 s, with 256 MiB of memory and 1,000 descriptors (Linux)
	set -e; export TMPDIR=$$(mktemp -d); for test in FuzzTar FuzzGzip FuzzJSON; do \
		CGO_ENABLED=0 go test -run '^$$' -fuzz "^$$test\$$" -fuzztime $(UPLOADTIME) -fuzzminimizetime 5x -parallel 1 -timeout 30m \
			-exec "sh -c 'ulimit -d 262144; ulimit -n 1000; GOGC=20 exec \"\$$0\" \"\$$@\"'" ./internal/web/upload; \
		test -z "$$(ls -A $$TMPDIR)" || { echo "$$test leaves in $$TMPDIR:"; ls -A $$TMPDIR; exit 1; }; done; rmdir $$TMPDIR

VITEPRESS_VERSION := 1.6.4
SITE := $(TOOLS)/site

# Needs npm. SITE_BASE=/name/ where the site is not at the root of its host.
.PHONY: site
site: $(SITE)/node_modules/vitepress/$(VITEPRESS_VERSION) ## build the documentation as a static, searchable site: bin/site; fails at dead links
	rm -rf $(SITE)/docs
	cp -r docs $(SITE)/docs
	mkdir $(SITE)/docs/.vitepress
	cp tools/site/config.mjs $(SITE)/docs/.vitepress/
	sed -e 's#](docs/#](#g' -e 's#](CONTRIBUTING.md#](../CONTRIBUTING.md#g' README.md > $(SITE)/docs/index.md
	$(SITE)/node_modules/.bin/vitepress build $(SITE)/docs --outDir $(CURDIR)/bin/site

$(SITE)/node_modules/vitepress/$(VITEPRESS_VERSION):
	npm install --ignore-scripts --silent --no-save --no-package-lock --prefix $(SITE) vitepress@$(VITEPRESS_VERSION)
	touch $@

AXE_VERSION := 4.14.1
AXE := $(TOOLS)/axe/node_modules/axe-core/axe.min.js

# Needs chromium (or CHROMIUM=path) and npm.
.PHONY: look
look: $(AXE) ## show the report, and the pages of a fleet at work, in a browser, at two widths and in both themes, and have axe-core judge them (.look/)
	mkdir -p .look
	go test -v -timeout 30m -tags look -run 'TestLook(Answers|Asynqmon|Votes)?$$' ./internal/report ./internal/web ./cmd/evalfleet -look $(CURDIR)/.look -axe $(AXE)

# The report of the README's first command.
.PHONY: picture
picture: build ## take the pictures of the report in README and docs/report.md with Chromium (or CHROMIUM=path)
	rm -rf .look/questions
	bin/evalfleet run examples/questions/evaluation.yaml --out-dir .look/questions
	$${CHROMIUM:-chromium} --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme=1 \
		--window-size=900,1330 --screenshot=$(CURDIR)/docs/images/questions.png file://$(CURDIR)/.look/questions/report.html
	$${CHROMIUM:-chromium} --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme=0 \
		--window-size=400,1800 --screenshot=$(CURDIR)/docs/images/questions-narrow.png file://$(CURDIR)/.look/questions/report.html

.PHONY: pictures
pictures: picture ## take the pictures of docs/pages.md, too: a fleet at work, and pairs to read
	sh tools/scripts/pictures.sh .look/questions

$(AXE):
	npm install --ignore-scripts --silent --no-save --no-package-lock --prefix $(TOOLS)/axe axe-core@$(AXE_VERSION)

.PHONY: bench
bench: servers ## run the benchmarks at their whole size; they print ratios (docs/benchmarks.md)
	go test -run '^$$' -bench . -timeout 30m ./...
	go test ./eval/rank ./internal/report -run '^$$' -bench 'Rank|Sink' -benchtime 1x -timeout 30m -full
	cd bench && go test -run '^$$' -bench . -benchtime 1x -timeout 30m . -full

# npm install, because npm ci wants optional packages of other platforms, which some registries lack.
ROUNDS_OF_PEERS := 2
.PHONY: peers
peers: redis build ## compare with BullMQ, asynq and one process, and write the table of docs/benchmarks.md (about 40 minutes; needs Node.js 20)
	cd bench/peers/bullmq && npm install --ignore-scripts --no-save --silent
	cd bench && go build -trimpath -o ../bin/peers ./peers
	cd bench/peers && ../../bin/peers -evalfleet ../../bin/evalfleet -rounds $(ROUNDS_OF_PEERS) -write ../../docs/benchmarks.md

.PHONY: refusals
refusals: redis build ## count refused calls in ten runs of each limited workload of `make peers`, without and with a network delay (about 40 minutes)
	cd bench && go build -trimpath -o ../bin/peers ./peers
	for delay in 0s 50ms; do \
		bin/peers -evalfleet bin/evalfleet -contender evalfleet -workload slots,window,models -rounds 10 -delay $$delay || exit 1; \
	done
