# Every target creates the virtual environment that it needs. `make` lists the targets.

# The interpreter for the environments; by default, the first candidate that is new enough.
PYTHON ?=
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

VENV   := .venv
ORACLE := .venv-oracle
NEWEST := .venv-newest
PY     := $(VENV)/bin/python
PIP    := -m pip install --quiet --disable-pip-version-check

# jax needs Python 3.12 since 0.11; empty without one. It is looked for only where it is used.
NEW_PYTHON = $(shell for python in $(PYTHON) python3 python3.14 python3.13 python3.12; do \
  "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo "$$python" && break; done)

# Without compiled files, each process that a test starts takes three times as long; `make clean` removes them.
export PYTHONDONTWRITEBYTECODE :=

SECONDS ?= 60
ARGS    ?=
# Tests run in parallel; a process that has finished its own tests takes over others that have not started.
PYTEST  := -m pytest -q --numprocesses auto --maxprocesses 8 --dist worksteal
# No doctest is slow or needs jaxlib: the package is not searched for them.
NO_DOCTESTS := -o testpaths=tests -o addopts="--ignore=tests/bench --strict-config --strict-markers"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check lint oracle newest judge bench golden fuzz hunt mutate dist clean

help: ## list targets
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1@\2/p' Makefile | awk -F@ '{printf "%-16s%s\n", $$1, $$2}'

demo: $(VENV)/.run ## explain a real TPU dump
	@COLUMNS=80 $(VENV)/bin/hlo fixtures/tpu/v5e_conv/ --format screen

test: $(VENV)/.test ## run tests and doctests (ARGS="-k layout" selects)
	@$(PY) $(PYTEST) -m "not (slow or oracle or long)" $(ARGS)

check: lint test ## run every check: format, lint, types, tests

lint: $(VENV)/.dev ## format, lint, types
	@$(PY) -m ruff format --check --quiet . || { echo "error: files are not formatted; run: $(PY) -m ruff format" >&2; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy --no-error-summary

oracle: $(ORACLE)/.oracle ## run the slow tests and the tests against jaxlib
	@$(ORACLE)/bin/python $(PYTEST) $(NO_DOCTESTS) -m "(oracle or slow or hypothesis) and not long" --hypothesis-profile thorough $(ARGS)

newest: ## run the tests against the newest jaxlib (skipped without Python 3.12)
	@python="$(NEW_PYTHON)"; \
	if [ -z "$$python" ]; then \
	  echo "note: Python 3.12 or newer not found; the tests against the newest jaxlib are skipped"; exit 0; \
	fi; \
	$(MAKE) --no-print-directory PYTHON="$$python" $(NEWEST)/.newest && \
	$(NEWEST)/bin/python $(PYTEST) $(NO_DOCTESTS) -m "oracle and not long" $(ARGS)

judge: $(ORACLE)/.judge ## recompile programs for the long tests (30 minutes; HLO_CORPUS=DIR adds a corpus)
	@$(ORACLE)/bin/python $(PYTEST) $(NO_DOCTESTS) -m long $(ARGS)

bench: $(ORACLE)/.oracle ## measure speed and memory against jaxlib
	@$(ORACLE)/bin/python tests/bench/bench.py $(ARGS)

golden: $(VENV)/.test ## regenerate golden files (review with git diff)
	@$(PY) tests/golden.py --write $(ARGS)
	@$(PY) tests/lint_findings.py --write

fuzz: $(VENV)/.test ## fuzz the readers and whole commands for SECONDS=60
	@$(PY) tests/fuzz.py --seconds $(SECONDS) $(ARGS)

hunt: $(ORACLE)/.oracle ## compile random programs pass by pass for SECONDS=60, and evaluate every dump (ARGS="--platform tpu")
	@$(ORACLE)/bin/python tests/hunt.py --seconds $(SECONDS) $(ARGS)

mutate: $(VENV)/.dev ## insert bugs and list those that no test detects (ARGS="hlo_cli/analysis/memory/heaps.py")
	@$(PY) tests/mutate.py $(ARGS)

dist: $(VENV)/.dist ## build the wheels (with a C compiler, one for this platform too) and the sdist, and check them
	@rm -rf dist
	@HLO_PURE=1 $(PY) -m build --outdir dist . >/dev/null
	@$(PY) -m build --wheel --outdir dist . >/dev/null
	@$(PY) -m twine check --strict dist/*
	@$(PY) tests/check_dist.py dist

clean: ## remove virtual environments, caches, and build output
	@rm -rf $(VENV) $(ORACLE) $(NEWEST) build dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find hlo_cli tests fixtures -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp represents one set of packages; they are chained, so that `make -j` never runs pip twice at once.
$(VENV)/.run: $(VENV)/bin/python pyproject.toml
	@echo "installing into $(VENV)" >&2
	@$(PY) $(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@$(PY) $(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	@$(PY) $(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.dist: $(VENV)/.test
	@$(PY) $(PIP) --editable '.[dist]'
	@touch $@

$(ORACLE)/.oracle: $(ORACLE)/bin/python pyproject.toml
	@echo "installing jaxlib into $(ORACLE)" >&2
	@$(ORACLE)/bin/python $(PIP) --editable '.[oracle,test]'
	@touch $@

$(NEWEST)/.newest: $(NEWEST)/bin/python pyproject.toml
	@echo "installing the newest jaxlib into $(NEWEST)" >&2
	@$(NEWEST)/bin/python $(PIP) --upgrade --editable '.[newest,test]'
	@touch $@

$(ORACLE)/.judge: $(ORACLE)/.oracle
	@echo "installing libtpu into $(ORACLE)" >&2
	@$(ORACLE)/bin/python $(PIP) --editable '.[oracle,test,tpu]'
	@touch $@

$(VENV)/bin/python $(ORACLE)/bin/python $(NEWEST)/bin/python:
	@for python in $(CANDIDATES); do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    "$$python" -m venv --clear "$(@D)/.." && echo '*' > "$(@D)/../.gitignore" && exit 0; exit 1; \
	  fi; \
	done; \
	echo "error: Python 3.11 or newer with the venv module not found (tried $(CANDIDATES))" >&2; \
	echo "  help: make PYTHON=/path/to/python3.11 (on Debian and Ubuntu: apt install python3-venv)" >&2; \
	exit 1
