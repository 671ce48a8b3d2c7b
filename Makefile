VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
SERVER := $(VENV)/.server
STAMP := $(VENV)/.installed
SITE := $(VENV)/.site
LOCKED := $(VENV)/.locked
CHOICE := $(VENV)/.choice
DATA ?= data
PORT ?= 8700
COUNT ?= 1000000
WORKERS ?= 3
LAKE ?= lake
PYTEST := $(BIN)/python -m pytest
PROOFS := proof-kills proof-brokers proof-pages proof-pipeline proof-attack proof-combinations proof-hosts

# Of the hundreds of processes that the tests start each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run install site check sbom test test-quick proof $(PROOFS) proofs-page mutants bench images docs dashboards texts million events servers constraints clean help

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

run: $(SERVER) ## Start the bus with its embedded default.
	$(BIN)/bus up --data $(DATA) --port $(PORT)

install: $(STAMP) ## Install all that development needs.
	@cat $(CHOICE)

# The fastest Python of this machine, unless PYTHON names one.
$(BIN)/python:
	@mkdir -p $(VENV)
	@python3 bench/fastest.py $(PYTHON) > $(CHOICE).new && cat $(CHOICE).new
	"$$(sed 's/:.*//' $(CHOICE).new)" -m venv $(VENV)
	@mv $(CHOICE).new $(CHOICE)

$(SERVER): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[server]'
	@touch $(SERVER)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[server,alarms,kafka,rabbitmq,mongodb,zookeeper,oidc,pipeline,dev]'
	@touch $(SERVER) $(STAMP)

# Only the tests of the site fail where this cannot be installed.
site: $(SITE)
$(SITE): pyproject.toml constraints.txt | $(STAMP)
	$(PIP) --editable '.[docs]'
	@touch $(SITE)

$(LOCKED): pyproject.toml constraints.txt | $(STAMP)
	$(BIN)/python -m tests.supply lock
	@touch $(LOCKED)

check: $(STAMP) $(LOCKED) ## Lint, types, direction of imports, wording, spelling; the lock, licences and known faults of what is installed.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.language
	$(BIN)/codespell
	$(BIN)/python -m tests.supply licences
	$(BIN)/python -m tests.supply audit

sbom: $(STAMP) ## Write what the product is made of, as CycloneDX: build/sbom.json.
	$(BIN)/python -m tests.supply sbom

servers: $(STAMP) ## Install the real servers and payloads that tests need.
	$(BIN)/python -m tests.servers install

test: $(STAMP) ## Everything but the proofs, on real processes.
	$(MAKE) --jobs 2 check servers
	-$(MAKE) site
	$(PYTEST) -m "not proof" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --guard

test-quick: $(STAMP) ## Rules, and contracts on adapters in memory, within a minute.
	$(PYTEST) -q -m "not proof and not server" -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/unit tests/contract

proof: check servers ## The long versions; in parts: proof-kills, -brokers, -pages, -pipeline, -attack, -combinations, -hosts.
	$(MAKE) --jobs 1 --keep-going $(PROOFS)

# A proof that cannot run fails.
$(PROOFS): export CI := 1
$(PROOFS): proof-%: servers site
	$(PYTEST) -p tests.proofs.plugin --part $* --hypothesis-profile proof -s --timeout 3600

proofs-page: $(STAMP) ## The history of the proofs as a page: build/proofs.html.
	$(BIN)/python -m tests.proofs

mutants: servers ## Seed 30 faults, and tell which the tests catch.
	$(BIN)/python -m tests.mutants

# What is named behind it are sections: make bench counts.
ifeq ($(firstword $(MAKECMDGOALS)),bench)
SECTIONS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(SECTIONS)
$(SECTIONS): bench ;@:
endif

bench: servers ## Measure; every figure is a ratio within one run. Some: make bench curves OPTIONS=--quick.
	$(BIN)/python -m bench $(SECTIONS) $(OPTIONS)

million: $(STAMP) ## Put 1,000,000 messages (COUNT) into the store of DATA.
	$(BIN)/python -m bench.million --data $(DATA) --count $(COUNT)

events: $(STAMP) ## Put 1,000,000 trace events (COUNT) of a day into the lake LAKE.
	$(BIN)/python -m bench.events --lake $(LAKE) --count $(COUNT)

images: servers ## Take the pictures of the pages for the docs anew.
	$(BIN)/python -m tests.acceptance.pages.pictures docs/images

docs: site ## Build the site of the docs: build/site, to be read with any web server.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

dashboards: $(STAMP) ## Write the dashboards of Grafana and the rules of Prometheus anew.
	$(BIN)/python -m deploy.grafana
	$(BIN)/python -m deploy.prometheus

texts: $(STAMP) ## Bring the Chinese texts of the pages into step with the code.
	$(BIN)/python -m tests.texts

constraints: $(STAMP) ## Lock what pyproject.toml asks for, for every Python that it allows.
	$(BIN)/python -m tests.supply relock

clean: ## Remove what these targets made.
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache data
