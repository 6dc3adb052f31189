# From a fresh clone, `make run` shows the library at work and `make test` checks everything.
# Each makes what it needs in .venv and installs again only when a source has changed.

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints/test.txt
TEST_EXTRAS ?= test,torch,onnx,river,integrations,docs,dev
PYTEST_ARGS ?= -n auto --maxprocesses 8 --dist worksteal
FUZZ_FILES ?= 1000000
SANITIZE_TESTS ?= tests/test_kernels.py
TORCH := torch==2.13.0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Builds in place and keeps the objects, so that a change of Python code compiles nothing.
BUILD := --no-build-isolation --config-settings=build-dir=build/$(notdir $(VENV))-{wheel_tag}
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src -type f ! -name '*.pyc' ! -path src/softboost/_core.pyi)
STUB := src/softboost/_core.pyi
STUBGEN = $(BIN)/python -m nanobind.stubgen --quiet --module softboost._core

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test build lint layers format stub bench docs slow lowest newest sanitize fuzz lock audit audit-online sbom dist clean

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

run: $(VENV)/.run ## Install and run the demonstration
	$(BIN)/softboost demo

test: $(VENV)/.test ## Tests, lint, types and layers
	$(BIN)/python -m pytest $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory lint

build: $(VENV)/.test ## Install into .venv with everything the tests need

lint: $(VENV)/.test ## Every static check; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory layers
	$(BIN)/clang-format --dry-run -Werror $(wildcard src/cpp/*.hpp src/cpp/*.cpp)
	$(BIN)/codespell CHANGELOG.md CONTRIBUTING.md README.md SECURITY.md src tests $(wildcard docs benchmarks paper)
	VALIDATE_PYPROJECT_NO_NETWORK=1 $(BIN)/validate-pyproject pyproject.toml
	@$(STUBGEN) --output-file $(VENV)/_core.pyi
	@diff -u $(STUB) $(VENV)/_core.pyi || { echo "$(STUB) is out of date: run 'make stub'"; exit 1; }

# The checker reads Python files only, so in a copy the extension's stub stands for the extension.
layers: ## Check that modules import only what stands below them
	@rm -rf build/layers && mkdir -p build/layers && cp -r src/softboost build/layers
	@cp $(STUB) build/layers/softboost/_core.py
	PYTHONPATH=build/layers $(BIN)/lint-imports

format: $(VENV)/.test ## Rewrite sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard src/cpp/*.hpp src/cpp/*.cpp)

stub: $(VENV)/.test ## Write the type stub of the extension again
	$(STUBGEN) --output-file $(STUB)

bench: $(VENV)/.bench ## Accuracy and speed against other libraries
	$(BIN)/softboost benchmark

docs: $(VENV)/.docs ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

slow: $(VENV)/.test ## The tests that are too long for `make test`
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m slow --timeout 1800

# The last of the warnings is one that LightGBM 4.6 causes by itself.
lowest: ## Tests with the oldest supported versions of the dependencies
	@$(MAKE) --no-print-directory .venv-lowest/.lowest VENV=.venv-lowest
	.venv-lowest/bin/python -m pytest $(PYTEST_ARGS) -W ignore::DeprecationWarning -W ignore::FutureWarning \
	  -W "ignore:X does not have valid feature names:UserWarning"

newest: ## Tests with the newest pandas, without the libraries that want it below 3
	@$(MAKE) --no-print-directory .venv-newest/.newest VENV=.venv-newest
	.venv-newest/bin/python -m pytest $(PYTEST_ARGS)

sanitize: ## Tests of the extension under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory .venv-sanitize/.sanitize VENV=.venv-sanitize
	LD_PRELOAD="$$($${CC:-gcc} -print-file-name=libasan.so) $$($${CC:-gcc} -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 PYTHONMALLOC=malloc \
	.venv-sanitize/bin/python -m pytest $(SANITIZE_TESTS) -p no:xdist --timeout 1800

fuzz: ## Mutated model files against the loader, under the sanitizers
	@$(MAKE) --no-print-directory .venv-sanitize/.sanitize VENV=.venv-sanitize
	LD_PRELOAD="$$($${CC:-gcc} -print-file-name=libasan.so) $$($${CC:-gcc} -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	.venv-sanitize/bin/python tests/fuzz/harness.py --files $(FUZZ_FILES)

lock: ## Resolve the test environment afresh and write constraints/test.txt
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install "$(TORCH)" build cmake nanobind ninja scikit-build-core setuptools wheel \
	  ".[test,torch,onnx,river,integrations,paper,benchmark,docs,dev]"
	{ sed -n '/^#/p' constraints/test.txt; \
	  .venv-lock/bin/python -m pip freeze --all --exclude softboost --exclude pip | sed 's/+cpu$$//'; } > constraints/test.txt.new
	mv constraints/test.txt.new constraints/test.txt
	.venv-lock/bin/python constraints/audit.py --write
	rm -rf .venv-lock

audit: $(VENV)/.test ## Hashes, versions and requirements of the locked packages, without the network
	$(BIN)/python constraints/audit.py

# Strict: a package that the service does not answer for counts as a failure, not as clean.
audit-online: .venv-audit/.made ## Known vulnerabilities of the locked packages; needs the network
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip -r constraints/test.txt

sbom: $(VENV)/.test .venv-audit/.made ## Bill of materials of the test environment (CycloneDX) into build/sbom.json
	.venv-audit/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file build/sbom.json

dist: $(VENV)/.test ## Source archive and wheel into dist/
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) build
	$(BIN)/python -m build

clean: ## Remove builds, caches and environments
	rm -rf build dist wheelhouse site .venv .venv-lowest .venv-newest .venv-sanitize .venv-lock .venv-audit
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache catboost_info

.venv-audit/.made:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip --disable-pip-version-check install "pip-audit>=2.9" "cyclonedx-bom>=7"
	@touch $@

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# setuptools and wheel are for pyspark, which comes as source.
$(VENV)/.backend: $(CONSTRAINTS) | $(VENV)/.created
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) cmake nanobind ninja scikit-build-core setuptools wheel
	@touch $@

$(VENV)/.run: $(SOURCES) | $(VENV)/.backend
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) $(BUILD) ".[plot,lightgbm]"
	@touch $@

$(VENV)/.test: $(SOURCES) $(VENV)/.backend
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) $(BUILD) ".[$(TEST_EXTRAS)]"
	@$(BIN)/python benchmarks/instructions.py --build
	@touch $@ $(VENV)/.run

$(VENV)/.bench: $(SOURCES) $(VENV)/.backend
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) $(BUILD) ".[benchmark]"
	@touch $@ $(VENV)/.run

$(VENV)/.docs: $(SOURCES) $(VENV)/.backend
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) $(BUILD) ".[docs,plot]"
	@touch $@ $(VENV)/.run

$(VENV)/.lowest: $(SOURCES) $(VENV)/.backend
	{ grep -o '"[a-z][a-z0-9-]*>=[0-9.]*"' pyproject.toml | tr -d '"' | sed 's/>=/==/' | grep -v '^torch=='; \
	  echo "$(TORCH)"; } | sort -u > $(VENV)/lowest.txt
	$(PIP) install -c $(VENV)/lowest.txt $(BUILD) ".[test,torch,onnx,river]"
	@touch $@

$(VENV)/.newest: $(SOURCES) $(VENV)/.backend
	grep -v '^pandas==' constraints/test.txt > $(VENV)/newest.txt
	$(PIP) install -c $(VENV)/newest.txt $(BUILD) ".[test,torch,onnx,river]"
	@touch $@

$(VENV)/.sanitize: $(SOURCES) $(VENV)/.backend
	$(PIP) install $(addprefix -c ,$(CONSTRAINTS)) $(BUILD) --config-settings=cmake.define.SOFTBOOST_SANITIZE=ON ".[test,torch]"
	@touch $@
