# A fresh machine needs Python 3.11 or newer, make and git; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
LOCK := .ci/constraints.txt
export NO_MKDOCS_2_WARNING := 1
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DELETE_ON_ERROR:
.PHONY: run test quick docs unchanged mutations lock clean

# What the ring and the session table do to 384 coding agents, side by side.
run: .venv/run.stamp
	@$(BIN)/podsim run scenarios/b200-agents.yaml --variant ring-0.10.7 --variant session-table --seed 1

# Everything that a change must pass.
test: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/podsim baseline check

# The manual, to be opened in a browser.
docs: .venv/test.stamp
	$(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html; with a search: $(BIN)/mkdocs serve"

# What takes seconds: rules of router, pools, results, imports. In half a minute on two cores.
quick: .venv/test.stamp
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/placement tests/router tests/results tests/manifests \
	  tests/timeline tests/pool tests/test_api.py tests/test_content.py tests/test_kernel.py

# Whether every verb, scenario and bad input is answered as recorded, to the byte; "record" renews it.
unchanged: .venv/test.stamp
	$(BIN)/python -m tests.unchanged check --jobs 2

# Whether the tests notice faults that are put into engine and cache on purpose.
mutations: .venv/test.stamp
	$(BIN)/python -m tests.mutations

.venv/run.stamp: pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "podsim needs Python 3.11 or newer; name one like this: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Installing podsim into .venv (once)" >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) install --quiet --constraint $(LOCK) setuptools
	@$(PIP) install --quiet --constraint $(LOCK) --no-build-isolation --editable .
	@touch $@

.venv/test.stamp: .venv/run.stamp
	@echo "Installing the tools of the tests into .venv (once)" >&2
	@$(PIP) install --quiet --constraint $(LOCK) --no-build-isolation --editable '.[dev]'
	@touch $@

# Renew the lock with the newest versions that pyproject.toml allows.
lock:
	$(PYTHON) -m venv --clear .venv/lock
	.venv/lock/bin/python -m pip install --quiet --upgrade setuptools --editable '.[dev]'
	{ sed -n '/^#/p' $(LOCK); \
	  .venv/lock/bin/python -m pip freeze --all --exclude pip --exclude podsim; } > $(LOCK).new
	mv $(LOCK).new $(LOCK)
	rm -rf .venv/lock

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
