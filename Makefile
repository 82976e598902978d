# `make test` needs make and python3 (3.11 or newer); all else goes into .venv, nothing needs root.
# PYTHON=python3.12 chooses another interpreter. CI=true turns a missing server into a failure.

PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check

# What `pip install` has been run for; done again only when pyproject.toml has changed.
VENV_MADE    := $(VENV)/.made
RUNTIME_MADE := $(VENV)/.made-runtime
DEV_MADE     := $(VENV)/.made-dev
DOCS_MADE    := $(VENV)/.made-docs

# The suites whose promises depend on the database run on all three.
MATRIX := $(wildcard tests/integration tests/concurrency tests/acceptance)
OUTSIDE := $(wildcard tests/browser tests/demo tests/acceptance tests/packaging)
# With development mode on, Python shows what it hides by default, such as files left open.
PYTEST := PYTHONDEVMODE=1 $(PY) -m pytest --quiet
UNAVAILABLE := 77
# Databases that this machine could not provide, for the last line of `make test`.
NOT_TESTED := $(VENV)/.not-tested

# How long `make soak` lasts.
MINUTES ?= 60

.PHONY: help screenshots demo test test-sqlite test-outside test-postgres test-mysql test-zones test-faults faults faults-dispatch faults-worker figures lint format types layers docs clean bench bench-admin bench-peers soak model mutate

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME_MADE) ## See it work: a small shop with its admin, in the browser
	@case "$$DATABASE_URL" in \
	postgres*|psql*|pgsql*) driver=psycopg extra=postgres ;; \
	mysql*) driver=MySQLdb extra=mysql ;; \
	*) exit 0 ;; \
	esac; \
	$(PY) -c "import $$driver" 2>/dev/null \
		|| { echo "Installing the driver for $$extra ..."; $(PIP) --editable ".[$$extra]"; }
	@$(PY) example_project/demo.py

# Two at a time, each with servers of its own, and its output in one piece when it has ended.
test: $(DEV_MADE) ## Everything that must be green: tests on three databases, faults, lint, types, layers
	@rm -f $(NOT_TESTED)
	@echo "Nine suites, two at a time; each speaks when it has ended (20 minutes in all) ..."
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target \
		faults-dispatch test-sqlite test-postgres faults-worker test-outside test-mysql lint types layers \
		|| { echo "Not green: see above." >&2; exit 1; }
	@if [ -s $(NOT_TESTED) ]; then echo "Green, but NOT TESTED:" $$(cat $(NOT_TESTED)); \
		else echo "All green."; fi

test-sqlite: $(DEV_MADE) ## Everything but the faults and what is looked at from outside, on SQLite
	@echo "== tests on SQLite"
	@TEST_DATABASE=sqlite $(PYTEST) tests $(addprefix --ignore=,tests/faults $(OUTSIDE))

test-outside: $(DEV_MADE) ## The product as its users meet it: in a browser, as a demo, as a wheel
	@echo "== tests from outside, on SQLite"
	@TEST_DATABASE=sqlite $(PYTEST) $(OUTSIDE)

test-postgres: $(DEV_MADE) ## What depends on the database, on PostgreSQL
	@echo "== tests on PostgreSQL"
	@TEST_DATABASE=postgres $(PYTEST) $(MATRIX) || $(call unless_unavailable,PostgreSQL)

test-mysql: $(DEV_MADE) ## What depends on the database, on MariaDB
	@echo "== tests on MariaDB"
	@TEST_DATABASE=mysql $(PYTEST) $(MATRIX) || $(call unless_unavailable,MariaDB)

test-zones: $(DEV_MADE) ## Every change of every time zone from 2000 to 2037 (four minutes)
	@echo "== every change of every time zone"
	@TIMING_ALL_CHANGES=1 $(PYTEST) tests/unit/timing/test_all_zones.py

test-faults: $(DEV_MADE) ## The faults at full length (10,000 runs, 50 kills), on PostgreSQL
	@echo "== faults on PostgreSQL, at full length"
	@FAULTS_ALONE=1 TEST_DATABASE=postgres $(PYTEST) -m "slow or not slow" tests/faults

# Of each test its full length; FIGURES="tests/faults/test_live_slots.py" for some of them.
FIGURES ?= $(shell grep -rl 'figures[.]add' tests/faults --include='test_*.py')
figures: $(DEV_MADE) ## What the fault tests measure (lost, duplicated, effects, take-overs), as one table
	@rm -f $(VENV)/.figures
	@FAULTS_ALONE=1 FAULTS_FIGURES=$(abspath $(VENV))/.figures TEST_DATABASE=postgres $(PYTEST) \
		-m "slow or not slow" $(FIGURES); code=$$?; \
		$(PY) -m tests.faults.figures $(VENV)/.figures; exit $$code

soak: $(DEV_MADE) ## Random faults under load for MINUTES=60, then an audit; FAULTS_SEED=... for the same choices
	@$(PY) -m tests.faults.soak --minutes $(MINUTES)

# Only the exit code that stands for "this machine has no such server" is forgiven, never in CI
# (where pytest does not return it), and never quietly.
define unless_unavailable
{ code=$$?; [ $$code -eq $(UNAVAILABLE) ] || exit $$code; \
echo $(1) >> $(NOT_TESTED); \
echo "!! NOT TESTED: $(1), as this machine cannot provide it (the reason is above)." >&2; }
endef

faults: faults-dispatch faults-worker ## Only what kills, freezes and cuts off, on PostgreSQL

faults-dispatch: $(DEV_MADE) ## ... of leaders and slots
	@echo "== faults of leaders and slots"
	@TEST_DATABASE=postgres $(PYTEST) tests/faults --ignore=tests/faults/worker \
		|| $(call unless_unavailable,faults)

faults-worker: $(DEV_MADE) ## ... of workers and Runs
	@echo "== faults of workers and Runs"
	@TEST_DATABASE=postgres $(PYTEST) tests/faults/worker || $(call unless_unavailable,faults)

lint: $(DEV_MADE) ## Style, by ruff
	@echo "== lint"
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check . || { echo "make format mends this" >&2; exit 1; }

format: $(DEV_MADE) ## Mend the style
	@$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .

types: $(DEV_MADE) ## Types, by mypy
	@echo "== types"
	@$(VENV)/bin/mypy

# Without its cache, which does not notice that a module has come into being.
layers: $(DEV_MADE) ## Who may import whom, by import-linter
	@echo "== layers"
	@$(VENV)/bin/lint-imports --no-logo --no-cache

docs: $(DOCS_MADE) ## The documentation, into docs/_build/html
	@$(VENV)/bin/sphinx-build -q -W -n -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

screenshots: $(DEV_MADE) ## Pictures of every screen of the admin, into .screenshots
	@$(PY) scripts/screenshots.py

# MODEL_STEPS=50000 goes further, MODEL_SEED=... repeats a run, TEST_DATABASE=postgres or mysql too.
model: $(DEV_MADE) ## Random histories against a model of the promises
	@MODEL_STEPS=$${MODEL_STEPS:-20000} MODEL_SEED=$${MODEL_SEED:-$$(date +%s)} $(PYTEST) -s tests/model

mutate: $(DEV_MADE) ## Remove each safeguard in turn; some test must notice (all three databases)
	@$(PY) -m tests.mutation.run

bench: $(DEV_MADE) ## How fast it is, beside the machine's own floor; wants a quiet machine
	@code=0; for name in submit worker dispatch; do $(PY) -m benchmarks.$$name || code=1; done; exit $$code

bench-admin: $(DEV_MADE) ## How long every page takes with a million runs, on three databases
	@$(PY) -m benchmarks.admin

bench-peers: $(DEV_MADE) ## Ours beside other job queues, each installed into .bench; takes half an hour
	@$(PY) -m benchmarks.peers

clean: ## Remove what the tools left behind (.venv stays)
	@rm -rf build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis .coverage htmlcov .tox *.egg-info
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(VENV_MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) must be Python 3.11 or newer; say PYTHON=... to choose one." >&2; exit 1; }
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "$(PYTHON) -m venv failed; Debian has it in the package python3-venv." >&2; exit 1; }
	@touch $@

$(RUNTIME_MADE): $(VENV_MADE) pyproject.toml
	@echo "Installing sync_scheduler into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(DEV_MADE): $(VENV_MADE) pyproject.toml
	@echo "Installing sync_scheduler and the tools of its developers into $(VENV), once ..."
	@$(PIP) --editable '.[dev,postgres]'
	@if pkg-config --exists libmariadb 2>/dev/null || pkg-config --exists mysqlclient 2>/dev/null; \
	then $(PIP) --editable '.[mysql]'; \
	else echo "!! No client library of MariaDB here (Debian: libmariadb-dev pkg-config gcc)." >&2; fi
	@touch $@ $(RUNTIME_MADE)

$(DOCS_MADE): $(VENV_MADE) pyproject.toml
	@echo "Installing the tools of the documentation into $(VENV), once ..."
	@$(PIP) --editable '.[docs]'
	@touch $@
