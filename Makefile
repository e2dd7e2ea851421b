# Two commands: `make serve` and `make test`. Both need only a package registry.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip --disable-pip-version-check
HOST ?= 127.0.0.1
PORT ?= 8000
# Pins torch to a CPU build; `make CONSTRAINTS= test` lifts it.
CONSTRAINTS ?= constraints.txt
PIN := $(if $(CONSTRAINTS),-c $(CONSTRAINTS))

.PHONY: serve test test-training test-others test-long check format docs wheel install install-dev clean
.PHONY: bench bench-search bench-search-large bench-classify bench-encode bench-limits bench-growth
.PHONY: bench-growth-windows bench-tables

serve: $(VENV)/.serving
	$(VENV)/bin/purlin serve --demo --host $(HOST) --port $(PORT)

# Where bytecode is forbidden, as in many images, each process would compile all sources again.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.dev
	$(MAKE) --no-print-directory --jobs 2 test-training test-others

# To load torch takes a process longer than to load all else: only the first of these does.
TRAINING_TESTS := tests/training tests/benchmarks tests/index/qa tests/project/test_reproduce.py

test-training: $(VENV)/.dev
	$(VENV)/bin/pytest $(TRAINING_TESTS)

test-others: $(VENV)/.dev
	$(VENV)/bin/pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(TRAINING_TESTS))

# Load and faults, about 45 minutes; `make test-long SHARE=0.1` shortens its loads. See docs/reliability.md.
test-long: export SHARE ?= 1
test-long: $(VENV)/.dev
	$(VENV)/bin/pytest -m long -s

check: $(VENV)/.dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	rm -rf build/tree && mkdir -p build/tree && cp -r purlin build/tree/ && cp -r app index training build/tree/purlin/
	$(VENV)/bin/mypy
	cd build/tree && ../../$(VENV)/bin/lint-imports --config ../../pyproject.toml
	$(VENV)/bin/hadolint Dockerfile
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.build.yml docker-compose.offline.yml docker-compose.replicas.yml docker-compose.milvus.yml docker-compose.ray.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

format: $(VENV)/.dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# docs/api.md from the OpenAPI document, the client and the recipes.
docs: $(VENV)/.dev
	$(VENV)/bin/python -m docs.reference > docs/api.md

# Each part goes on where it was stopped; docs/performance.md says how long each takes.
BENCH_DATA ?= ../shared/data
BENCH_SCRATCH ?= var/bench
BENCH_FUNCTIONS ?= $(BENCH_SCRATCH)/functions
BENCH = $(VENV)/bin/python -m benchmarks
BENCH_DIRS = --data $(BENCH_DATA) --scratch $(BENCH_SCRATCH)

bench: bench-encode bench-search-large bench-classify bench-growth bench-search bench-limits bench-tables

bench-search: $(VENV)/.dev
	$(BENCH).peers search $(BENCH_DIRS) --corpus cosqa

bench-search-large: $(VENV)/.dev
	$(BENCH).peers search $(BENCH_DIRS) --corpus csn

bench-classify: $(VENV)/.dev
	$(BENCH).peers classify $(BENCH_DIRS)

bench-encode: $(VENV)/.dev
	$(BENCH).peers encode $(BENCH_DIRS)

bench-limits: $(VENV)/.dev
	$(BENCH).peers limits $(BENCH_DIRS) --corpus csn

bench-growth: $(VENV)/.dev
	$(BENCH).speed.functions --data $(BENCH_DATA) --out $(BENCH_FUNCTIONS)
	$(BENCH).speed.growth $(BENCH_DIRS) --functions $(BENCH_FUNCTIONS)

# Five million passages, an hour; not part of `bench`.
bench-growth-windows: $(VENV)/.dev
	$(BENCH).speed.growth $(BENCH_DIRS) --functions $(BENCH_FUNCTIONS) --windows --sizes 5000000

bench-tables: $(VENV)/.dev
	$(BENCH).speed.tables --scratch $(BENCH_SCRATCH)

# purlin-search, with the models, and purlin-client, into dist/.
wheel: | $(VENV)/bin/pip
	rm -rf build/lib build/bdist.* dist
	$(PIP) wheel -q --no-deps --wheel-dir dist . ./packaging/client

install: $(VENV)/.serving

install-dev: $(VENV)/.dev

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.serving: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) install -q $(PIN) -e '.[languages,parquet,transformer]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) install -q $(PIN) -e '.[dev]'
	touch $@ $(VENV)/.serving

clean:
	rm -rf $(VENV) var build dist
