# Every target sets itself up: a Python of 3.11 or newer and make are enough.
#
#   make run               import the sample conversations, kill an agent half-way, resume, read back under a budget
#   make run FILE=path     the same with a transcript of yours (JSONL or JSON, OpenAI chat shape)
#   make test              the whole test suite; ARGS="-k name" narrows it down
#   make lint              ruff, import-linter, mypy, pyright
#   make survive           kill -9, power cuts, full disks, cut connections: hundreds of times; docs/reliability.md
#   make bench             the benchmarks beside laser-sdk and others; figures in benchmarks/results
#   make bench-quick       the same on smaller logs, in two minutes; figures in benchmarks/results/quick

VENV ?= .venv
FILE ?= examples/data/support.jsonl
URL ?= embedded:.laser
BUDGET ?= 1200
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint format survive bench bench-quick clean

help:
	@sed -n 's/^#   //p' Makefile

run: $(VENV)/.ready-cli
	@$(VENV)/bin/laser import "$(FILE)" --url "$(URL)" --agents 3 --budget $(BUDGET) --kill-one

test: $(VENV)/.ready-test
	@$(VENV)/bin/python -m pytest $(ARGS)

lint: $(VENV)/.ready-test $(VENV)/.ready-lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(VENV)/bin/mypy
	$(VENV)/bin/pyright

format: $(VENV)/.ready-lint
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .

survive: $(VENV)/.ready-test $(VENV)/.ready-fuzz
	@$(VENV)/bin/python -m tests.survive $(ARGS)

bench: $(VENV)/.ready-bench
	@$(VENV)/bin/python -m benchmarks $(ARGS)

bench-quick: $(VENV)/.ready-bench
	@$(VENV)/bin/python -m benchmarks --quick $(ARGS)

clean:
	rm -rf $(VENV) .laser build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# One stamp a set of extras: `make run` does not wait for what only the tests need.
$(VENV)/.ready-%: pyproject.toml tools/setup
	@tools/setup "$(VENV)" $*
	@touch $@
