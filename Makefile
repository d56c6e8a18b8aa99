# make run          what the main job takes on a fresh machine, then the main job
# make test         everything it takes on a fresh machine, then all tests but the long
#                   ones (make test-all)
# make test-quick   without studies, browser, kills and deployments
.PHONY: run test test-all test-quick test-slow programs lint coverage bench bench-peers \
  bench-gpu docs pages check-pages packages faults fuzz screenshots labels \
  test-labels clean
.DEFAULT_GOAL := run

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MAIN   := $(VENV)/.main
READY  := $(VENV)/.ready
PEERS  := .venv-peers
LABELS := .venv-labels

PIP     := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --no-deps --quiet --progress-bar on
HASHED  := $(INSTALL) --require-hashes

# Versions and hashes of everything stand in pins/; what has another hash is not
# installed.
$(MAIN): pyproject.toml pins/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "headgate needs Python 3.11 or newer" >&2; exit 1; }
	@echo "installing the $$(grep -c == pins/run.txt) packages of pins/run.txt" \
	  "into $(VENV): about 85 MB to fetch; only this once"
	@began=$$(date +%s) \
	  && { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); } \
	  && $(HASHED) -r pins/run.txt \
	  && $(INSTALL) --no-build-isolation -e . \
	  && echo "installed in $$(($$(date +%s) - began)) s"
	@touch $@

# torch is taken from where pip is told to find files (find-links), and only if it is
# not there from the index: that one is built for GPUs and needs CUDA.
$(READY): $(MAIN) pins/rest.txt pins/torch.txt pins/cuda.txt
	@echo "installing the $$(grep -c == pins/rest.txt) packages of pins/rest.txt and" \
	  "torch into $(VENV); only this once"
	$(HASHED) -r pins/rest.txt
	$(HASHED) --no-index -r pins/torch.txt 2>/dev/null \
	  || $(HASHED) -r pins/torch.txt -r pins/cuda.txt
	$(PIP) check
	touch $@

run: $(MAIN)   # MORE="--rounds 10": with options
	$(BIN)/headgate compare digits $(MORE)

# Tests of one file share what they start and make, so one worker takes them all;
# tests/longest.txt says which files come first. Compiled Python is kept even where the
# environment forbids it: some hundred processes are started.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest \
  -n auto --dist loadfile --no-loadscope-reorder

test: $(READY) programs
	$(PYTEST) -m "not long" $(SLOW)

test-all: $(READY) programs
	$(PYTEST)

test-quick: $(READY)   # the inner loop
	$(PYTEST) -m "not (long or study or browser or kill or deploy)"

test-slow: SLOW := --durations=20   # as `make test`, and the twenty slowest
test-slow: test

# chromium for the tests in a browser, nginx for those of a deployment, PostgreSQL for
# accounts in it; without them these are skipped. RUNLEVEL: no service starts.
programs:
	@for program in chromium nginx postgresql; do \
	  command -v $$program >/dev/null || command -v $$program-browser >/dev/null \
	  || test -n "$$(ls -d /usr/lib/$$program/*/bin/initdb 2>/dev/null)" \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	       && apt-get -qq update && RUNLEVEL=1 apt-get -qq install --yes \
	          --no-install-recommends $$program >/dev/null; } \
	  || echo "no $$program, and none can be installed here:" \
	          "the tests that need it are skipped"; \
	done

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

ROOMS := theory control flower
COVERED := 95

# lines and branches of three rooms, without bringing up a deployment; fails where one is
# below $(COVERED) %
coverage: $(READY)
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest -m "not deploy" \
	  $(ROOMS:%=tests/%) $(ROOMS:%=src/headgate/%)
	$(BIN)/coverage combine --quiet
	@missed=0; for room in $(ROOMS); do \
	  report="$(BIN)/coverage report --include=src/headgate/$$room/*"; \
	  $$report --fail-under=$(COVERED) || missed=1; \
	  echo "$$room: $$($$report --format=total) %"; \
	done; exit $$missed

# each leaves its results in benchmarks/results; `make pages` draws them
bench: $(READY)
	$(BIN)/python benchmarks/executors.py
	$(BIN)/python benchmarks/phases.py
	$(BIN)/python benchmarks/judging.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/study.py
	$(BIN)/python benchmarks/control.py
	$(BIN)/python benchmarks/books.py
	$(BIN)/python benchmarks/labels.py
	$(BIN)/python -m benchmarks.databases
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/million.py
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/page_soak.py
	$(BIN)/python benchmarks/flower_soak.py

bench-gpu: $(READY)
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/study.py --device cuda --repeats 3

bench-peers: $(PEERS)/.ready
	$(PEERS)/bin/python benchmarks/peers.py --case pfl/1 pfl/2 \
	  --out benchmarks/results/pfl.json
	$(PEERS)/bin/python benchmarks/peers.py --case flower/logistic flower/lenet flute

$(PEERS)/.ready: benchmarks/peers.txt constraints.txt pyproject.toml
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints.txt -r benchmarks/peers.txt -e '.[sim]'
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps pfl==0.6.0
	touch $@

# the site, offline, into build/site; a warning, a broken link or an undocumented name
# fails. Runs the tutorials
docs: $(READY)
	$(BIN)/python -m sphinx -b html -q -W --keep-going -d build/doctrees docs build/site
	@echo "look at build/site/index.html"

# renews the pages and pictures that are made from the code and from results
pages: $(READY)
	$(BIN)/python tools/pages.py

check-pages: $(READY)   # makes them in a copy and prints what differs
	$(BIN)/python tools/pages.py --check

# wheel and sdist into dist/, each tried in a clean environment of every Python that is
# here
packages: $(READY)
	$(BIN)/python tools/packages.py

# of every page, light and dark, wide and narrow; renews those of the documentation
screenshots: $(READY)
	$(BIN)/python tools/screenshots.py build/screenshots --docs

# kills what can be killed and writes down what happened: about a quarter of an hour
faults: $(READY)
	$(BIN)/python tools/faults.py

# recipes, run folders and federations in which anything happens, with other examples
# each time
fuzz: $(READY)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest \
	  tests/trust/test_recipes.py tests/trust/test_fuzz.py
	cd tests/flower && ../../$(BIN)/python federation.py 60

# Label Studio on this machine, with people that are played: six rounds of a gate, then
# the statement. MORE="--pictures": and a picture of it for the documentation
labels: $(READY) $(LABELS)/.ready
	$(BIN)/python -m tools.label_studio $(MORE)

# forty rounds with kills in front of Label Studio, and its recorded answers made again:
# about a quarter of an hour
test-labels: $(READY) $(LABELS)/.ready
	$(BIN)/python -m pytest -n 0 -s tests/labels/real_label_studio.py

$(LABELS)/.ready: pins/labels.txt
	@echo "installing Label Studio and what it needs, $$(grep -c == pins/labels.txt)" \
	  "packages of pins/labels.txt, into $(LABELS): about 1 GB; only this once"
	test -x $(LABELS)/bin/python || $(PYTHON) -m venv $(LABELS)
	$(LABELS)/bin/python -m pip --disable-pip-version-check install --no-deps \
	  --quiet --progress-bar on --require-hashes -r pins/labels.txt
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(LABELS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
