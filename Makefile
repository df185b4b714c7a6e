# The only task runner. `make` lists the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := .stamps
# Oldest Python that envdoctor supports: a lock made with it also holds the backports that newer ones do without.
LOCK_PYTHON ?= python3.10
TORCH_FOR_TESTS := torch==2.13.0
PYTEST_FLAGS ?= -n auto

.DEFAULT_GOAL := help
.PHONY: help check test lint format types contracts docs golden locks test-wheel verify verify-loader bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The lock is made from pyproject.toml, so it changes when the dependencies do.
$(STAMPS)/venv: lockfiles/dev/requirements.txt
	$(PYTHON) -c 'import sys; sys.exit("envdoctor needs Python 3.10 or newer; say make PYTHON=...") if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r lockfiles/dev/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/torch: $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet '$(TORCH_FOR_TESTS)'
	@touch $@

check: $(STAMPS)/torch  ## set up, and examine the environment made here for an RTX 4090 and an RTX A6000
	@$(BIN)/envdoctor check --python $(BIN)/python --gpu 4090 --gpu a6000 || test $$? -eq 1

test: $(STAMPS)/torch  ## run the tests
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lint: $(STAMPS)/venv  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMPS)/venv  ## mend formatting and what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMPS)/venv  ## check types (strict)
	$(BIN)/mypy

contracts: $(STAMPS)/venv  ## check the import direction
	$(BIN)/lint-imports

docs: $(STAMPS)/venv  ## write docs/rules from the docstrings of the rules
	$(BIN)/python -m tools.make_docs

golden: $(STAMPS)/venv  ## rewrite the expected texts under fixtures/: look at the diff
	$(BIN)/python -m pytest -q tests/render/test_golden.py tests/test_cases.py --golden

locks: $(STAMPS)/venv  ## make the lock of the developers' tools again
	$(LOCK_PYTHON) -m venv --clear $(STAMPS)/lock-venv
	$(STAMPS)/lock-venv/bin/python -m pip install --quiet pip-tools
	CUSTOM_COMPILE_COMMAND='make locks' $(STAMPS)/lock-venv/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --extra dev --output-file lockfiles/dev/requirements.txt pyproject.toml lockfiles/dev/requirements.in

coverage: $(STAMPS)/torch  ## run the tests and report their coverage
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest $(PYTEST_FLAGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# The wheel in an environment of its own, the tests in a folder without the sources: what is missing in the wheel shows.
test-wheel: $(STAMPS)/venv  ## run the tests against the built wheel
	rm -rf build/wheel && mkdir -p build/wheel/checkout
	$(BIN)/python -m build --no-isolation --wheel --outdir build/wheel/dist .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --require-hashes -r lockfiles/dev/requirements.txt
	build/wheel/venv/bin/python -m pip install --quiet '$(TORCH_FOR_TESTS)'
	build/wheel/venv/bin/python -m pip install --quiet --no-deps build/wheel/dist/*.whl
	git ls-files -z -- ':!envdoctor' | xargs -0 cp --parents -t build/wheel/checkout
	cd build/wheel/checkout && ../venv/bin/python -m pytest $(PYTEST_FLAGS)

verify: $(STAMPS)/venv  ## read real wheels (9 GB, one at a time; or WHEELS=...) and compare them with fixtures/wheel_archs.json
	$(BIN)/python -m tools.verify_wheels $(WHEELS)

verify-loader: $(STAMPS)/torch  ## ask the dynamic loader about every library of ENV (else of .venv), and compare with the prediction
	$(BIN)/python -m tools.verify_loader $(or $(ENV),$(BIN)/python)

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(STAMPS) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
