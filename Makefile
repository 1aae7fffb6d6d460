# Every target makes its own environment first; nothing but python3 (3.11+), its venv module and make is needed.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python -m
READY := $(VENV)/ready
PYTEST := $(RUN) pytest
# uv where it is installed; pip where it is not, or where uv does not know the package index that pip is set to.
install = { command -v uv >/dev/null && uv pip install -q --python $(VENV)/bin/python -c constraints.txt $(1); } || $(RUN) pip install -q -c constraints.txt $(1)

export OMP_NUM_THREADS = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help setup demo test check format lint types spelling docs bench fix golden docs-update coverage wheel install-test changelog clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 18

setup: $(READY)  ## make .venv, once, and again when pyproject.toml or constraints.txt change

demo: setup  ## the main job: plans for a 70B model on 64 GPUs, and the files that start the best
	$(RUN) planner search llama3-70b --hardware dgx-h100 --gpus 64 --seq-len 8192 --global-batch 1024 --runtime megatron-lm --emit out/ --force

test: setup  ## all light tests: no network, no GPU, no torch
	$(PYTEST)

check: format lint types spelling docs  ## what a change must pass beside the tests

format: setup
	$(RUN) ruff format --check

lint: setup
	$(RUN) ruff check

types: setup
	$(RUN) mypy

spelling: setup
	$(RUN) codespell_lib README.md CONTRIBUTING.md CHANGELOG.md changelog.d docs planner

docs: setup  ## run every example of README and docs, follow their links, look up their words
	$(PYTEST) tests/cli/test_docs.py tests/unit/test_glossary.py

bench: setup  ## speed and accuracy figures
	$(RUN) tests.speed.bench

fix: setup  ## format, and repair what the linter can
	$(RUN) ruff check --fix
	$(RUN) ruff format

golden: setup  ## rewrite the golden files, to be read as a diff
	$(PYTEST) tests/golden --update-golden

docs-update: setup  ## rewrite the outputs shown in README and docs, to be read as a diff
	$(RUN) tests.cli.docs_blocks

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
