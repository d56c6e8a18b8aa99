# make run    everything it takes on a fresh machine, then the main job
# make test   everything it takes on a fresh machine, then all tests
.PHONY: run test lint bench docs clean
.DEFAULT_GOAL := run

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headgate needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sim,track,dev]'
	touch $@

run: $(READY)
	$(BIN)/headgate run digits

test: $(READY)
	$(BIN)/python -m pytest -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/control.py
	$(BIN)/python benchmarks/executors.py

docs: $(READY)   # the pages and pictures that are made from the code
	$(BIN)/python tools/equations.py
	$(BIN)/headgate rehearse mnist --quiet --figure docs/figures/rehearsal.svg
	$(BIN)/headgate theory rates --quiet --figure docs/figures/rates.svg > docs/rates.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
