# Short names for daily work; each is one command that can be typed by hand.
PY ?= .venv/bin/python

.PHONY: help install test test-fast conformance validate samples lint types format bench

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)
install: ## virtual environment with everything
	python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e '.[dev]'
test: ## the whole suite
	$(PY) -m pytest -n auto tests/
test-fast: ## what a change to the runner or the contract needs
	$(PY) -m pytest -n auto tests/ --ignore=tests/conformance --ignore=tests/flydsl_programs
conformance: ## instruction semantics only
	$(PY) -m pytest -n auto tests/conformance
validate: ## both architectures
	$(PY) -m validation.cli --arch all --report out.json
samples: ## sample reports of both architectures
	$(PY) -m validation.report.samples
lint: ## ruff, without changing anything
	$(PY) -m ruff check . && $(PY) -m ruff format --check .
format: ## let ruff fix what it can
	$(PY) -m ruff check --fix . && $(PY) -m ruff format .
types: ## mypy
	$(PY) -m mypy
bench: ## emulator speed as ratios
	$(PY) -m tests.flydsl_programs.bench
