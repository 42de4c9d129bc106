# One-line targets. `make demo` and `make test` set up what they need by themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-all lint types imports docs bench bench-% vectors wheel format clean

$(STAMP): pyproject.toml
	@echo "setting up $(VENV), which takes a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[serve,plan,postgres]' --group dev
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/p2pmoe demo $(ARGS)

test: $(STAMP) lint types imports
	$(BIN)/python -m pytest -q $(ARGS)

test-all: $(STAMP) lint types imports
	$(BIN)/python -m pytest -q -m "slow or not slow" $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/python -m docs.generate

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks.run all

bench-%: $(STAMP)
	$(BIN)/python -m tests.benchmarks.run $*

vectors: $(STAMP)
	$(BIN)/python -m tests.vectors.make

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

format: $(STAMP)
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info
