# `make demo` and `make test` do everything, set-up included. `make help` lists the rest.
#
# Set-up needs Python 3.11 or later and a package index that pip can reach; it writes only to .venv.
# Another interpreter: make PYTHON=python3.13 test

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
UV     ?= uv
FAST   := .fast

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format bench fast results pages keys docs lock clean

help:  ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*  ## /make \1 — /p' $(MAKEFILE_LIST) | awk -F ' — ' '{ printf "  %-12s %s\n", $$1, $$2 }'

demo: $(READY)  ## set up, then lend three simulated clusters for two days and write the report
	@$(BIN)/leasehold demo

# Tests start programs hundreds of times: wherever this runs, what Python has compiled is kept.
PYTEST_RUN = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist loadgroup

# What needs no special machine and is no long run, and a few examples of the rest. Nothing is installed on this machine:
# what needs a program that is missing is skipped, and the summary names the command that installs it.
test: $(READY)  ## set up, and pass the tests (some minutes; the rest is in make test-all)
	@HYPOTHESIS_PROFILE=quick $(PYTEST_RUN) -m 'example or not (docs or evaluation or machines or soak or storm)' $(PYTEST)

test-all: check docs  ## everything: also real machines, storms, every page of the docs, long runs
	@$(PYTEST_RUN) $(PYTEST)

check: $(READY)  ## format, lint, types and layers
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY)  ## put the source in its one format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)  ## judge speed and memory, as ratios in one run; BENCH="CASE ..." or BENCH=--full
	@$(BIN)/python -m bench $(BENCH) $(if $(LOGS),--logs $(LOGS))

# From a source distribution, so that nothing compiled comes to lie in src/.
fast: $(READY)  ## compile the decision core into .fast, for long evaluations (docs/howto/faster.md)
	@echo 'Compiling the decision core into $(FAST) (some four minutes; needs a C compiler) ...'
	@rm -rf $(FAST) dist/fast
	@$(BIN)/hatchling build --target sdist --directory dist/fast > /dev/null
	@HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist/fast dist/fast/*.tar.gz
	@$(PIP) install --no-deps --target $(FAST) dist/fast/*.whl
	@$(BIN)/python -m bench.compiled $(FAST)

# Each evaluation has the size that its publication states, or that its page names; SIZE="--seeds 10" makes all smaller. What
# is measured is kept in docs/results/measured, so that nothing there is measured again and `make results` can be stopped at
# any time; of results that earlier code made, one run of every configuration is made again first. From nothing, 003, 000,
# acsc2011 and beyond took 5.6 hours of processor time with PyPy (RUNS="--python .pypy/bin/python", docs/howto/faster.md).
SIZE ?=
RUNS ?=
LOGS ?=

EVALUATIONS := usla hybrid victims spot 001 000 acsc2011 003
WITH_LOGS   := beyond calibration
MEASURED    := docs/results/measured

results: $(READY)  ## run the evaluations, and write their pages; LOGS=FOLDER adds public workload logs
	@for name in $(EVALUATIONS) $(WITH_LOGS); do \
	    test ! -d $(MEASURED)/$$name || test -d runs/$$name/configurations || { mkdir -p runs/$$name/configurations && \
	    cp $(MEASURED)/$$name/*.parquet runs/$$name/configurations/; }; done
	@for name in $(EVALUATIONS); do $(BIN)/leasehold reproduce $$name --recheck 1 $(SIZE) $(RUNS) || exit 1; done
	@$(BIN)/leasehold reproduce beyond --recheck 1 $(SIZE) $(RUNS) $(if $(LOGS),--logs $(LOGS))
	@$(BIN)/leasehold reproduce calibration --recheck 1 $(SIZE) $(if $(LOGS),--logs $(LOGS))
	@$(MAKE) --no-print-directory pages

pages:  ## put the pages of the last evaluations, and what they measured, into the documentation
	@for name in $(EVALUATIONS) $(WITH_LOGS); do \
	    test ! -f runs/$$name/$$name.md || { cp runs/$$name/$$name.md $$(ls runs/$$name/*.svg 2> /dev/null) docs/results/ && \
	    mkdir -p $(MEASURED)/$$name && cp runs/$$name/configurations/*.parquet $(MEASURED)/$$name/; }; done
	@test ! -f runs/beyond/which-policy.txt || cp runs/beyond/which-policy.txt docs/results/

docs: $(READY)  ## build the documentation; a warning is an error
	@$(BIN)/sphinx-build --fresh-env -W --keep-going --quiet docs docs/_build
	@echo 'Documentation: docs/_build/index.html'

keys: $(READY)  ## write the tables of configuration keys and of command options into the documentation
	@$(BIN)/python -m tests.reference

lock:  ## pin every dependency anew (needs uv)
	@$(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --upgrade \
	    --extra cloud --extra experiments --extra report --extra service --group dev --generate-hashes --no-header --output-file requirements.lock > /dev/null

clean:  ## remove whatever make made
	rm -rf $(VENV) $(FAST) dist docs/_build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'Leasehold needs Python 3.11 or later; name one with: make PYTHON=python3.13 ...' >&2; exit 1; }
	@echo 'Setting up $(VENV) (once; about a minute) ...'
	@$(PYTHON) -m venv $(VENV)

# Exactly the locked packages, each checked by its hash; then this tree itself, fetching nothing more.
$(READY): requirements.lock pyproject.toml | $(BIN)/python
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
