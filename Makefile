# One-line targets. `make demo` and `make test` set up what they need by themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
GROUP  := $(VENV)/.group-
# The native kernel, built in place; without a compiler the install goes on without it.
NATIVE := $(wildcard mobile_worker/arithmetic/c/*.[ch])

.PHONY: demo test test-all test-slow lint types imports docs bench bench-% vectors wasm-kernels wheel format clean

$(STAMP): pyproject.toml $(NATIVE)
	@echo "setting up $(VENV), which takes a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[serve,plan,postgres,acme,lan]' --group dev
	touch $(STAMP)

# Groups of pyproject.toml that only some targets need.
$(GROUP)%: $(STAMP)
	$(BIN)/python -m pip install --quiet --group $*
	touch $@

# llama.cpp has no wheel for some machines; the figures are then printed without it.
$(GROUP)bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --group bench || echo "no baseline here"
	touch $@

demo: $(STAMP)
	$(BIN)/p2pmoe demo $(ARGS)

# With ARGS (`make test ARGS="tests/relay -k greeting"`) one run of what they name.
test: $(STAMP) lint types imports
	$(BIN)/python -m $(if $(ARGS),pytest -q,tests.side_by_side) $(ARGS)

test-all: $(STAMP) $(GROUP)kernels lint types imports
	$(BIN)/python -m $(if $(ARGS),pytest -q,tests.side_by_side) -m "slow or not slow" $(ARGS)

# What `make test` does not run of `make test-all`.
test-slow: $(STAMP) $(GROUP)kernels
	$(BIN)/python -m tests.side_by_side -m slow

lint: $(STAMP)
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/python -m docs.generate

bench: $(STAMP) $(GROUP)bench
	$(BIN)/python -m tests.benchmarks.run all

bench-kernels bench-load bench-memory: $(GROUP)bench

bench-%: $(STAMP)
	$(BIN)/python -m tests.benchmarks.run $*

vectors: $(STAMP)
	$(BIN)/python -m tests.vectors.make

wasm-kernels: $(STAMP) $(GROUP)kernels
	$(BIN)/python -m mobile_worker.arithmetic.wasm.build

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

format: $(STAMP)
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info mobile_worker/arithmetic/native/*.so
