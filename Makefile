# Every target makes its own environment first; nothing but python3 (3.11+), its venv module and make is needed.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python -m
READY := $(VENV)/ready
TORCH_VENV ?= .venv-torch
TORCH_READY := $(TORCH_VENV)/ready
DEVICE ?= cuda
MEASURED ?= docs/measured
RAY_VENV ?= .venv-ray
RAY_READY := $(RAY_VENV)/ready
RAY_PACKAGES := ray==2.60.0
PYTEST := $(RUN) pytest
# Tests of documents, which `make docs` runs: examples, and the pages for contributors followed word by word.
DOCUMENTS := tests/cli/test_docs.py tests/cli/test_add_pages.py
# uv where it is installed; pip where it is not, or where uv does not know the package index that pip is set to.
install = { command -v uv >/dev/null && uv pip install -q --python $(VENV)/bin/python -c constraints.txt $(1); } || $(RUN) pip install -q -c constraints.txt $(1)

# The runners whose own code judges the launch files, in an environment of their own; never needed by `make test`.
VALIDATE_VENV ?= .venv-validate
VALIDATE_READY := $(VALIDATE_VENV)/ready
VALIDATE_PACKAGES := --group validate dacite==1.9.2
# DeepSpeed compiles extensions and waits for ever for a lock that a killed build left: a folder of its own, no old locks.
VALIDATE_BUILDS := $(abspath $(VALIDATE_VENV))/extensions
VALIDATE_ENV = TORCH_EXTENSIONS_DIR=$(VALIDATE_BUILDS) VALIDATE_PYTHON=$(abspath $(VALIDATE_VENV))/bin/python
# Runs a command for at most so many seconds, where the machine has `timeout`.
within = $(if $(shell command -v timeout),timeout --kill-after=30 $(1))

export OMP_NUM_THREADS = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Each worker of the tests, and each process that they start, would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-torch measure-gpu test-ray test-browser check format lint types spelling docs bench fix golden docs-update coverage wheel install-test changelog clean
.PHONY: fuzz test-deep validate validate-full validate-setup

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 18

setup: $(READY)  ## make .venv, once, and again when pyproject.toml or constraints.txt change

demo: setup  ## the main job: plans for a 70B model on 64 GPUs, and the files that start the best
	$(RUN) planner search llama3-70b --hardware dgx-h100 --gpus 64 --seq-len 8192 --global-batch 1024 --runtime megatron-lm --emit out/ --force

test: setup  ## all light tests, on all cores: no network, no GPU, no torch; `make docs` runs the documents' examples
	$(RUN) compileall -q -j 0 planner
	$(PYTEST) -n auto --dist worksteal $(addprefix --ignore ,$(DOCUMENTS)) --ignore tests/speed
	$(PYTEST) tests/speed

test-deep:  ## all light tests with all of their seeds and whole cross products, as CI runs them
	TEST_DEEP=1 $(MAKE) test

test-torch: $(TORCH_READY)  ## tests that need PyTorch: profile, check, training steps, imports beside transformers' own code
	$(TORCH_VENV)/bin/python -m pytest -m torch tests/torch

measure-gpu: $(TORCH_READY)  ## on a machine with a GPU: all measurements into docs/measured, within 25 minutes
	$(TORCH_VENV)/bin/python -m tests.gpu.measure --device $(DEVICE) --out $(MEASURED) $(MEASURE_OPTIONS)

test-ray: $(RAY_READY)  ## tests that need Ray: sweeps on a cluster that is started on this machine
	$(RAY_VENV)/bin/python -m pytest -m ray tests/ray

test-browser: setup  ## the report's page in a headless Chromium, if there is one on the PATH
	$(PYTEST) -m browser tests/browser

check: format lint types spelling docs  ## what a change must pass beside the tests

format: setup
	$(RUN) ruff format --check

lint: setup
	$(RUN) ruff check

types: setup
	$(RUN) mypy

spelling: setup
	$(RUN) codespell_lib README.md CONTRIBUTING.md CHANGELOG.md changelog.d docs planner

docs: setup  ## run every example of README and docs, follow their links and their steps, look up their words
	$(PYTEST) -n auto --dist worksteal $(DOCUMENTS) tests/unit/test_glossary.py

bench: setup  ## speed and accuracy figures
	$(RUN) tests.speed.bench

fix: setup  ## format, and repair what the linter can
	$(RUN) ruff check --fix
	$(RUN) ruff format

golden: setup  ## rewrite the golden files, to be read as a diff
	$(PYTEST) tests/golden --update-golden

docs-update: setup  ## rewrite the outputs shown in README and docs, to be read as a diff
	$(RUN) tests.cli.docs_blocks

fuzz: setup  ## 20,000 broken inputs and 300 kills: half an hour
	$(RUN) tests.fuzz 20000
	$(RUN) tests.fuzz.kills 300

validate: setup validate-setup  ## runners' own code reads 20 seeded plans of each kind: a download (it says what), 2 minutes
	@rm -f $(VALIDATE_BUILDS)/*/*/lock $(VALIDATE_BUILDS)/*/lock
	$(VALIDATE_ENV) $(call within,1200) $(PYTEST) -m torch tests/validate

validate-full: setup validate-setup  ## the same with 300 plans of each kind, and real runs of our scripts on processors
	@rm -f $(VALIDATE_BUILDS)/*/*/lock $(VALIDATE_BUILDS)/*/lock
	VALIDATE_RUNS=1 VALIDATE_PLANS=300 $(VALIDATE_ENV) $(call within,7200) $(PYTEST) -m torch tests/validate

validate-setup: $(VALIDATE_READY)
	@$(VALIDATE_VENV)/bin/python -c 'import accelerate, dacite, deepspeed, torch, transformers' || { echo "$(VALIDATE_VENV) is broken: remove it and run make again" >&2; exit 1; }

coverage: setup  ## the light tests with branch coverage
	$(RUN) coverage run -m pytest
	$(RUN) coverage report

wheel: setup  ## dist/*.whl
	rm -f dist/*.whl
	$(RUN) hatchling build -t wheel

install-test: wheel  ## an ordinary install into an empty environment, used from another folder
	sh tests/cli/install_test.sh $(PYTHON)

changelog: setup  ## fold changelog.d into CHANGELOG.md for a release: make changelog VERSION=0.2.0
	$(RUN) towncrier build --yes --version $(VERSION)

clean:  ## remove what was built; .venv stays
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name another with: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,pip)
	$(call install,--group dev)
	$(call install,--no-build-isolation --editable .)
	@touch $(READY)

$(VALIDATE_READY): pyproject.toml constraints.txt
	@echo "$(VALIDATE_VENV): torch, DeepSpeed, Accelerate, transformers, peft and bitsandbytes will be downloaded once:" >&2
	@echo "about 0.5 GB, 1.3 GB on disk, from an index with a CPU build of torch; several GB with GPU libraries elsewhere." >&2
	@test -x $(VALIDATE_VENV)/bin/python || $(PYTHON) -m venv $(VALIDATE_VENV)
	$(call within,900) $(VALIDATE_VENV)/bin/python -m pip install -q -c constraints.txt pip
	$(call within,900) $(VALIDATE_VENV)/bin/python -m pip install -q --no-compile -c constraints.txt $(VALIDATE_PACKAGES)
	@touch $(VALIDATE_READY)

$(TORCH_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install -q -U pip
	$(TORCH_VENV)/bin/python -m pip install -q --no-compile -c constraints.txt --group dev "torch>=2.6" nvidia-ml-py transformers
	$(TORCH_VENV)/bin/python -m pip install -q -c constraints.txt --no-build-isolation --editable .
	@touch $(TORCH_READY)

$(RAY_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/python -m pip install -q -U pip
	$(RAY_VENV)/bin/python -m pip install -q --no-compile -c constraints.txt --group dev $(RAY_PACKAGES)
	$(RAY_VENV)/bin/python -m pip install -q -c constraints.txt --no-build-isolation --editable .
	@touch $(RAY_READY)
