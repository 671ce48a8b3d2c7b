PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATA ?= data
PORT ?= 8700
COUNT ?= 1000000
WORKERS ?= 2
LAKE ?= lake
PYTEST := $(BIN)/python -m pytest

.PHONY: run install check test proof bench images million events servers constraints clean help

help: ## Show the targets.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/' | expand -t 14

run: $(STAMP) ## Start the bus with its embedded default.
	$(BIN)/bus up --data $(DATA) --port $(PORT)

install: $(STAMP) ## Make the virtual environment.

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[server,kafka,rabbitmq,mongodb,oidc,pipeline,dev]'
	@touch $(STAMP)

check: $(STAMP) ## Lint, types, direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

servers: $(STAMP) ## Install the real servers and payloads that tests need.
	$(BIN)/python -m tests.servers install

test: check servers ## Everything, on real processes, within 20 minutes.
	$(PYTEST) -m "not proof and not alone" -n $(WORKERS) --dist loadfile --no-loadscope-reorder
	$(PYTEST) -m "alone and not proof"

proof: check servers ## The long versions: kills, power cuts, soaks.
	$(PYTEST) -m proof -s --timeout 3600

bench: servers ## Measure; every figure is a ratio within one run.
	$(BIN)/python -m bench

million: $(STAMP) ## Put 1,000,000 messages (COUNT) into the store of DATA.
	$(BIN)/python -m bench.million --data $(DATA) --count $(COUNT)

events: $(STAMP) ## Put 1,000,000 trace events (COUNT) of a day into the lake LAKE.
	$(BIN)/python -m bench.events --lake $(LAKE) --count $(COUNT)

images: servers ## Take the pictures of the pages for the docs anew.
	$(BIN)/python -m tests.acceptance.pages.pictures docs/images

constraints: $(STAMP) ## Pin what is installed now.
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9_.-]+==' > constraints.txt

clean: ## Remove what these targets made.
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache data
