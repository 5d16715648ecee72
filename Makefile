# `make` alone lists the targets. Everything runs inside .venv, which `make setup` creates and updates.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN := .venv/bin
# Processes that run tests. One more than two cores: the tests of real sites wait much of their time.
WORKERS ?= 3
ARGS ?=
MINUTES ?= 10
# The part of the soak: real | real-log | real-places | real-isis | sim | log | dynamic | outposts | isis | wide | spark | certificates | demo | all. SEEDS and ARGS are for one part: `sim` by default.
PART ?= $(if $(SEEDS)$(ARGS),sim,all)
# Folders with Python code. bench only if it has some, since mypy rejects a folder without.
CODE := src tests scripts examples $(if $(wildcard bench/*.py),bench)
PROFILES ?= chaos,log,isis,dynamic,outposts,wide

.PHONY: help setup test test-all test-compiled seeds check format compiled pure demo soak bench docs docs-check lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv with the pinned dependencies, if it is not up to date
	@scripts/setup

test: setup ## run the tests that every change needs, in minutes (ARGS="-k name" selects)
	@scripts/test short $(WORKERS) $(ARGS)

test-all: setup ## run all tests, and those of the protocols on the compiled build too
	@scripts/test all $(WORKERS) $(ARGS)
	$(if $(ARGS),,@scripts/test compiled $(WORKERS))

test-compiled: setup ## run the tests of the protocols on the compiled build, which it makes in out/compiled
	@scripts/test compiled $(WORKERS) $(ARGS)

seeds: setup ## run the seeds of this commit in the simulator, as `make test` does (SEEDS=17-20 PROFILES=log: others)
	@$(BIN)/python scripts/seeds.py $(or $(SEEDS),commit) --profiles $(PROFILES) --jobs $(WORKERS)

check: setup ## check lint, formatting, types and links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(CODE)
	@$(MAKE) --no-print-directory docs-check

format: setup ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compiled: setup ## compile the hot modules of src to machine code, in place; a minute or two
	@$(BIN)/python scripts/compile.py in-place

pure: setup ## remove what `make compiled` made
	@$(BIN)/python scripts/compile.py remove

demo: setup ## run an election on five real sites while the network breaks (ARGS=--keep leaves them running)
	@$(BIN)/reconvene demo --dir out/demo $(ARGS)

soak: setup ## run real sites with faults for MINUTES=10, then many seeds in the simulator: PART=real|real-log|real-places|real-isis|sim|log|dynamic|outposts|isis|wide|spark|certificates|demo, SEEDS=1-500
	$(if $(filter real all,$(PART)),$(BIN)/python -m reconvene.lab.soak --minutes $(MINUTES) $(ARGS))
	$(if $(filter real-log all,$(PART)),$(BIN)/python -m reconvene.lab.soak --log --minutes $(MINUTES) $(ARGS))
	$(if $(filter real-places all,$(PART)),$(BIN)/python -m reconvene.lab.soak --log --followers 3 --outposts 2 --rate 1000 --least 500 --out out/soak-places --minutes $(MINUTES) $(ARGS))
	$(if $(filter real-places all,$(PART)),RECONVENE_PLACES_ROUNDS=$$(( 6 * $(MINUTES) )) $(BIN)/python -m pytest -q -rs tests/network/test_places.py)
	$(if $(filter real-isis all,$(PART)),$(BIN)/python -m reconvene.lab.soak --isis --minutes $(MINUTES) $(ARGS))
	$(if $(filter sim all,$(PART)),$(BIN)/python -m reconvene.lab.campaign $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter log all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile log-long $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter dynamic all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile dynamic $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter outposts all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile outposts $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter isis all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile isis $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS))
	$(if $(filter wide all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile wide --seeds $(or $(SEEDS),0-2999) $(ARGS))
	$(if $(filter wide all,$(PART)),$(BIN)/python -m reconvene.lab.campaign --profile wide-isis --seeds $(or $(SEEDS),0-499) $(ARGS))
	$(if $(filter spark all,$(PART)),$(BIN)/python -m reconvene.lab.exactly_once $(ARGS))
	$(if $(filter certificates all,$(PART)),$(BIN)/python -m pytest -m slow tests $(ARGS))
	$(if $(filter demo all,$(PART)),for run in 1 2 3; do $(BIN)/reconvene demo --dir out/soak-demo $(ARGS) || exit 1; done)

bench: setup ## measure: reconvene bench (ARGS="agreed")
	$(BIN)/reconvene bench $(ARGS)

docs-check: setup ## check the links in the documentation
	$(BIN)/python scripts/check_links.py

docs: ## build the documentation as a site in out/site; a broken link is an error
	@scripts/site/build

lock: ## write the lock files again (ARGS=--upgrade takes the newest versions)
	scripts/lock $(ARGS)

clean: ## remove .venv and everything generated
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist out
	find src -name '*.so' -delete
	rm -f src/reconvene/compiled.sha256
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
