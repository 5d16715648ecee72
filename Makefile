# `make` alone lists what there is. Everything runs inside .venv, which `make setup` makes and keeps up to date.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN := .venv/bin
WORKERS ?= 2
ARGS ?=
MINUTES ?= 10
# Of the soak: real | real-log | sim | log | spark | certificates | demo | all. Seeds are the simulator's, and arguments are one part's.
PART ?= $(if $(SEEDS)$(ARGS),sim,all)
# Folders of Python; bench only while it has some, since mypy refuses an empty one.
CODE := src tests scripts examples $(if $(wildcard bench/*.py),bench)
PROFILES ?= chaos,log

.PHONY: help setup test test-all seeds check format demo soak bench docs docs-check lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv with the pinned dependencies; nothing to do the second time
	@scripts/setup

test: setup ## run the tests that a change needs, in minutes (ARGS="-k name" chooses among them)
	@scripts/test short $(WORKERS) $(ARGS)

test-all: setup ## run all tests (REST=1 leaves out those of `make test`, if they have passed on this very tree)
	@scripts/test $(if $(REST),rest,all) $(WORKERS) $(ARGS)

seeds: setup ## run the simulator's seeds of this commit, as `make test` does (SEEDS=17-20, PROFILES=log)
	@$(BIN)/python scripts/seeds.py $(or $(SEEDS),commit) --profiles $(PROFILES) --jobs $(WORKERS)

check: setup ## lint, formatting, types, links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(CODE)
	@$(MAKE) --no-print-directory docs-check

format: setup ## put the code in its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup ## an election on five real sites while the network breaks (ARGS=--keep leaves them running)
	@$(BIN)/reconvene demo --dir out/demo $(ARGS)

soak: setup ## real sites broken for MINUTES=10, then many seeds in the simulator: PART=real|real-log|sim|log|spark|certificates|demo, SEEDS=1-500
	$(if $(filter real all,$(PART)),$(BIN)/python -m reconvene.lab.soak --minutes $(MINUTES) $(ARGS))
	$(if $(filter real-log all,$(PART)),$(BIN)/python -m reconvene.lab.soak --log --minutes $(MINUTES) $(ARGS))
	$(if $(filter sim all,$(PART)),$(BIN)/python -m reconvene.lab.campaign $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter log all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile log-long $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter spark all,$(PART)),$(BIN)/python -m reconvene.lab.exactly_once $(ARGS))
	$(if $(filter certificates all,$(PART)),$(BIN)/python -m pytest -m slow tests $(ARGS))
	$(if $(filter demo all,$(PART)),for run in 1 2 3; do $(BIN)/reconvene demo --dir out/soak-demo $(ARGS) || exit 1; done)

bench: setup ## measure
	$(BIN)/reconvene bench $(ARGS)

docs-check: setup ## links in the documentation
	$(BIN)/python scripts/check_links.py

docs: ## the documentation as a site, in out/site; a broken link fails it
	@scripts/site/build

lock: ## write the locks anew (ARGS=--upgrade takes the newest versions)
	scripts/lock $(ARGS)

clean: ## remove .venv and everything made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
