# One virtual environment, .venv, serves every target; `make setup` builds it once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# The one version whose CPU build is known to install everywhere this project is built;
# it must be there before anything asks for a range of torch.
TORCH := torch==2.13.0
FOLDERS := train export runtime eval simulate bin

.PHONY: help setup demo demo-full test test-slow lint types format bench clean
help:
	@echo "make demo       the paper's comparison on a small simulated world, six minutes"
	@echo "make demo-full  the same on the full world, forty minutes"
	@echo "make test       set up and run the tests (make test-slow: the long ones)"
	@echo "make lint       ruff and mypy"
	@echo "make bench      the speed figures, as ratios within one run"

setup: $(VENV)/.ready
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

demo: setup
	egs/simulated/run.sh --world=demo --dir=exp/demo

# The paper's comparison in full; about forty minutes on two cores.
demo-full: setup
	egs/simulated/run.sh --world=full --dir=exp/demo-full

test: setup
	$(BIN)/pytest -q -n 2 -m "not slow"

test-slow: setup
	$(BIN)/pytest -q -m slow

# mypy cannot follow an editable install of mapped folders, so it gets real links.
types: setup
	@mkdir -p build/types/dcaplda
	@for folder in $(FOLDERS); do ln -sfn ../../../$$folder build/types/dcaplda/$$folder; done
	$(BIN)/mypy

lint: types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python bench/run.py

clean:
	rm -rf build $(VENV) exp .pytest_cache .mypy_cache .ruff_cache .hypothesis
