# Everything a fresh machine needs: Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Threads that spin while they wait are very slow where cores are shared.
export OMP_WAIT_POLICY := PASSIVE
export PYTHONUNBUFFERED := 1

.PHONY: help setup demo serve test test-programs test-scale test-slow test-wheel test-lowest release lint format structure bench bench-speed bench-costs bench-tables bench-subsets bench-field bench-serving fuzz soak docs clean

help:
	@echo "make demo       train on two built-in tasks, print accuracy against queries, draw figures into demo/"
	@echo "make serve      open the models of the demo on a web page, http://127.0.0.1:8000"
	@echo "make test       run the tests"
	@echo "make test-programs  run those that start programs, servers and browsers"
	@echo "make test-slow  run the tests that take long, how well rivals learn, and more examples of properties"
	@echo "make test-wheel  build a wheel, install it without extras into an empty environment and try it"
	@echo "make test-lowest  the same with the lowest versions that pyproject.toml allows"
	@echo "make release    check, build and tag the version of src/pursuit/version.py"
	@echo "make lint       check style and types"
	@echo "make docs       build the documentation as a site, into site/"
	@echo "make structure  print the modules, who imports whom, cycles and lines"
	@echo "make bench      measure V-IP in a known world, and speed"
	@echo "make bench-speed  only speed: beside a plain implementation, and how long it takes to start"
	@echo "make bench-costs  compare methods where questions differ in cost"
	@echo "make bench-tables  measure ordinary tables without a setting, beside what others know with all columns"
	@echo "make bench-subsets  measure beliefs on random subsets of the answers, beside forests for exactly these"
	@echo "make bench-field  measure the benchmarks of the field, beside published figures"
	@echo "make bench-serving  measure the server: 300 people at once, and kill -9 while 200 answer"
	@echo "make fuzz       try bad input of every kind for some minutes, with another seed each time; a million on 16 cores:"
	@echo "                make fuzz FUZZ=\"--inputs 1000000 --minutes 60 --jobs 16 --out counts.json\""
	@echo "make soak       the same for an hour, and kill trainings"
	@echo "make test-scale  the tests on a Ray cluster of two nodes, one of which is killed"
	@echo "make setup      only make the environment in $(VENV)"

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# Modules are compiled when they are first imported, and that must be kept: compiling all that is installed takes a minute.
unexport PYTHONDONTWRITEBYTECODE

# What running needs. Installed again whenever the list of dependencies changes.
$(VENV)/running: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("pursuit needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-compile -e '.[serve]'
	@touch $@

# What testing and measuring need besides.
$(VENV)/installed: $(VENV)/running
	$(INSTALL) -e '.[dev]'
	$(BIN)/python -c 'import pursuit.methods, pursuit.research.tasks.loading, pursuit.web.serving.running'
	@touch $@

setup: $(VENV)/installed

# More threads do not make networks this small faster.
demo: $(VENV)/running
	OMP_NUM_THREADS=2 $(BIN)/pursuit demo

serve: $(VENV)/running
	$(BIN)/pursuit serve

# Two processes of one thread each; tests of a group run in one of them and share what they train.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup
test: setup
	$(TESTS) -m "not programs and not scale and not slow" --ignore tests/web/browser

test-programs: setup
	$(TESTS) -m "programs and not slow"

# One process: a Ray cluster of two nodes is shared by its tests.
test-scale: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "scale and not slow" tests/scale

# One process, for those on a Ray cluster. Properties are tried with more examples than in make test.
test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "slow or hypothesis" --hypothesis-profile thorough

# Into an empty environment, as users do who take no extra.
test-wheel: setup
	$(BIN)/python tools/try_install.py

test-lowest: setup
	$(BIN)/python tools/try_install.py --lowest --extras parquet --tests $(LOWEST_TESTS)
LOWEST_TESTS := tests/queries tests/inference tests/networks tests/vip tests/methods/test_naive_bayes.py \
	tests/methods/test_decision_tree.py tests/estimators/test_saving.py tests/evaluation/test_figures.py

# Everything that a release needs, then its tag: the version stands in src/pursuit/version.py and in CHANGELOG.md.
release: setup
	$(BIN)/python tools/release.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Installed apart: only who builds the site needs it. Interviews of the gallery are trained once, in a few minutes.
docs: setup
	$(INSTALL) -e '.[docs]'
	$(BIN)/python tools/gallery.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Built: open site/index.html"

structure: setup
	$(BIN)/python tools/structure.py

bench: setup bench-speed
	$(BIN)/python -m benchmarks known-world

bench-speed: setup
	$(BIN)/python -m benchmarks speed
	$(BIN)/python -m benchmarks starting

# One thread: the networks are small, and the times of all methods are then comparable.
bench-costs: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks costs

# One process of one thread for each core, so that times are those of one core.
bench-tables: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks tables --jobs 2

bench-subsets: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks subsets --jobs 2

bench-field: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks field --jobs 2

bench-serving: setup
	$(BIN)/python -m benchmarks serving

fuzz: setup
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m fuzz $(or $(FUZZ),--minutes 4)
	$(BIN)/python fuzz/api.py --examples 50

soak: setup
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m fuzz.kills --times 100
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m fuzz --minutes 40
	$(BIN)/python fuzz/api.py --examples 1000 --seed $$(date +%s)

clean:
	rm -rf $(VENV) demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis build
