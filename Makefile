# One virtual environment, .venv, serves every target; `make setup` builds it once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# The one version whose CPU build is known to install everywhere this project is built;
# it must be there before anything asks for a range of torch.
TORCH := torch==2.13.0
FOLDERS := train export runtime audio eval simulate bin

# Of the whole run of the fuzzer; its seed, empty: another one each time.
FUZZ_SECONDS ?= 600
FUZZ_SEED ?=

.PHONY: help setup demo demo-full test test-slow lint types format bench fuzz clean
help:
	@echo "make demo       the paper's comparison on a small simulated world, six minutes"
	@echo "make demo-full  the same on the full world, forty minutes"
	@echo "make test       set up and run the tests (make test-slow: the long ones)"
	@echo "make lint       ruff and mypy"
	@echo "make bench      the speed figures, as ratios within one run"
	@echo "make fuzz       damaged inputs of every kind for ten minutes (FUZZ_SECONDS, FUZZ_SEED)"

setup: $(VENV)/.ready
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

ABOUT := This invents recordings of people, teaches seven programs to tell whether two recordings are of one person, and ends in a page that shows which program to trust, and where

demo:
	@echo "$(ABOUT) (about six minutes)."
	@$(MAKE) --no-print-directory setup
	@egs/simulated/run.sh --world=demo --dir=exp/demo

# The paper's comparison in full, eleven systems; about forty minutes on two cores.
demo-full:
	@echo "$(ABOUT:seven=eleven) (about forty minutes)."
	@$(MAKE) --no-print-directory setup
	@egs/simulated/run.sh --world=full --dir=exp/demo-full

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

# Coverage-guided where atheris can be had for this Python; else inputs come by chance.
fuzz: setup
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/pip install --quiet \
	    --disable-pip-version-check --only-binary=:all: -e ".[fuzz]" || true
	$(BIN)/python tests/fuzz/run.py --seconds=$(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed=$(FUZZ_SEED))

clean:
	rm -rf build $(VENV) exp .pytest_cache .mypy_cache .ruff_cache .hypothesis
