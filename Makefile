# `make demo` and `make test` do everything on a machine that has Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FLOOR := .venv-floor/bin

.PHONY: help setup demo federation-demo e2e network recovery soak attack test lint types contracts unit floor browser bench bench-memory reproduce picture docs tutorials dist wheelhouse image-test postgresql clean
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 20

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "intarsia needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cli,private,secure,postgres]' --group dev --group docs
	@touch $@

setup: $(VENV)/.ready  ## create .venv with everything that development needs

demo: setup  ## cluster four real hospitals and show the result
	@$(BIN)/intarsia demo

$(VENV)/.flare: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cli,flare,private,secure,postgres]'
	@touch $@

federation-demo: $(VENV)/.flare  ## the same hospitals as four processes and a server with certificates of their own, to a report; EPSILON=2 with differential privacy, SECURE=1 with secure sums
	@$(BIN)/python scripts/federation_demo.py $(if $(EPSILON),--epsilon $(EPSILON)) $(if $(SECURE),--secure)

e2e: $(VENV)/.flare  ## federations of real processes, and what happens when one is killed
	$(BIN)/python -m tests.attempts e2e

network: $(VENV)/.flare  ## what the network adds to an exchange, also of ten megabytes from each
	INTARSIA_LARGE=1 OMP_NUM_THREADS=1 $(BIN)/pytest -m e2e tests/e2e/test_overhead.py -s

recovery: $(VENV)/.flare  ## thirty kills of a site: seconds until status tells who is gone, and until the run goes on (half an hour)
	INTARSIA_RECOVERY=$(or $(KILLS),30) OMP_NUM_THREADS=1 $(BIN)/pytest -m e2e tests/e2e/test_recovery.py -s

soak: $(VENV)/.flare  ## forty runs, ten of them with secure sums, each with a kill -9 at a random moment (20 minutes; RUNS=40: longer)
	INTARSIA_SOAK=$(or $(RUNS),10) OMP_NUM_THREADS=1 $(BIN)/pytest tests/e2e/test_soak.py -m e2e --numprocesses 3 -s

attack: setup  ## all attacks on all studies, three seeds each, as a table -> build/attacks.md, 500 kills of the ledger, 1,000 secure sums, and neighbours and canaries of private tables (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'attack or not attack' tests/attacks tests/privacy/test_ledger_kills.py tests/privacy/secure tests/private/test_neighbours.py tests/core/private -s

test: setup lint types contracts unit  ## all checks

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

unit: setup
	$(BIN)/python -m tests.attempts unit

# What does not depend on the versions of other libraries, or is checked well enough with the newest ones.
NOT_FLOOR = tables/test_extract.py laws attacks privacy coordinator core/grouping core/fast datasets/test_accuracy.py protocol/test_hostile.py cli/test_memory.py \
  report/test_browser.py test_experiments.py test_docs.py test_site.py test_papers.py test_language.py test_house.py

floor: pyproject.toml constraints-floor.txt  ## tests that touch other libraries, with the oldest versions that we support
	$(PYTHON) -m venv .venv-floor
	$(FLOOR)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	$(FLOOR)/python -m pip install --quiet --disable-pip-version-check --constraint constraints-floor.txt --editable '.[cli,private,secure]' --group dev
	$(FLOOR)/python -m tests.attempts unit $(NOT_FLOOR:%=--ignore tests/%)

postgresql:  ## a PostgreSQL server for the tests of extracts, which skip themselves without one
	scripts/install-postgresql

browser:  ## a browser for the tests of the report, which skip themselves without one
	scripts/install-browser

bench: setup  ## how the coordinator's work grows, as ratios in one run (six minutes; QUICK=1: one)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale $(if $(QUICK),--quick)

bench-extract: setup  ## memory and time of an extract of two million rows from a PostgreSQL of its own (a minute)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.extract

bench-memory: setup  ## how many copies of large tables `intarsia fit` holds (half an hour; ROWS=100000: minutes)
	$(BIN)/python -m benchmarks.memory $(if $(ROWS),--rows $(ROWS)) $(if $(COLUMNS),--columns $(COLUMNS))

reproduce: setup  ## the paper's tables, baselines, many random splits -> docs/evidence.md (an hour, MORE=1: missing values, K and privacy too; QUICK=1: minutes, to build/quick)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group experiments
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments reproduce $(if $(QUICK),--quick) $(if $(MORE),--more)

wheelhouse: setup  ## all wheels, their hashes, an SBOM and an install script for machines without internet -> build/
	$(BIN)/python scripts/wheelhouse.py

image-test: wheelhouse  ## build the container image and run it as another user with a read-only root (root on Debian only)
	scripts/check-image

picture: setup  ## draw the demo's output and the report's screenshots into docs/images
	@$(BIN)/intarsia demo --svg docs/images/demo.svg
	@$(BIN)/python scripts/screenshots.py

docs: setup  ## the documentation site -> build/site/index.html; runs the examples, and a warning is an error (two minutes)
	rm -rf build/site build/site-doctrees docs/reference/api docs/gallery
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --quiet --doctree-dir build/site-doctrees docs build/site
	@echo "build/site/index.html"

tutorials: setup  ## run the tutorials and compare what they print (two minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m tutorial tests/test_tutorials.py --numprocesses 2

dist: $(VENV)/.ready  ## wheel, source distribution, SBOM and checksums of what is committed -> dist/; built twice and compared
	$(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[cli,private,secure,flare]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group release
	BIN=$(abspath $(BIN)) scripts/dist

clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-floor .venv-dist build/site build/site-doctrees docs/gallery docs/reference/api .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
