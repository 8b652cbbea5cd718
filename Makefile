# Everything here sets itself up in .venv; a machine needs Python 3.10 or newer, and make.
#
#   make run ARGS="--bind 127.0.0.1:8080 --token=SECRET"    start the server
#   make test       lint, then the tests
#   make lint       ruff and mypy
#   make soak       the long-running tests
#   make bench      whole workloads beside a bare ipykernel and the public peer (ARGS="--json FILE")
#   make clean      remove .venv and what builds leave

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
ARGS ?=
PYTEST_ARGS ?=

.PHONY: run test lint browser soak bench clean

run: .venv/.stamp-run
	@exec $(BIN)/python main.py $(ARGS)

test: lint browser
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: .venv/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict bridge main.py

# JupyterLab's test needs Chromium; where it cannot be installed, that test alone is skipped.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	    [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    timeout 300 apt-get install -y -qq --no-install-recommends chromium chromium-driver; } \
	    >/dev/null 2>&1 || echo "no Chromium: the test of JupyterLab in a browser will be skipped"

soak: .venv/.stamp-test
	$(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

bench: .venv/.stamp-test
	$(BIN)/python -m tests.benchmarks $(ARGS)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find bridge tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make a second run instant; a changed pyproject.toml installs anew.
.venv/.stamp-venv:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.stamp-run: .venv/.stamp-venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.stamp-test: .venv/.stamp-run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@
