# The commands around the project; CI calls the same targets (.ci/run, .github/workflows/ci.yml).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
SQL := models macros project_macros tests
CODE := scripts tests benchmarks
export PYTHONDONTWRITEBYTECODE ?= 1
# no colour codes in a file
export DBT_USE_COLORS ?= $(if $(MAKE_TERMOUT),true,false)

.PHONY: run
run: setup  ## everything: set up, land the sample data, ingest it, build and test the models
	@scripts/run

FINANCE := source:bronze.financial_transactions source:bronze.insurance_claims
RETAIL := source:bronze.customer_changes source:bronze.product_changes source:bronze.order_changes

.PHONY: run-kafka
run-kafka: export HEADWATERS_LAKE := lake/kafka
run-kafka: export HEADWATERS_FINANCE_FROM := kafka
run-kafka: export HEADWATERS_RETAIL_FROM := kafka
run-kafka: setup  ## finance and retail from simulated Kafka topics to gold, in a lake of its own (lake/kafka)
	@$(BIN)/headwaters kafka start
	@trap "$(BIN)/headwaters kafka stop" EXIT; \
	$(BIN)/headwaters simulate finance --to-kafka; \
	$(BIN)/headwaters simulate retail --to-kafka; \
	$(BIN)/headwaters ingest --once --select "$(FINANCE) $(RETAIL)"; \
	$(BIN)/headwaters audit --select "$(FINANCE) $(RETAIL)"; \
	$(BIN)/dbt build --select $(addprefix @,$(FINANCE) $(RETAIL)); \
	$(BIN)/headwaters summary

.PHONY: run-retail
run-retail: setup-dev  ## the shop from an application to PostgreSQL and a topic, with real parts, in a lake of its own (lake/retail)
	@scripts/run-retail

.PHONY: run-platform
run-platform: setup-dev  ## the shop on all servers of the platform: S3 (needs Go), a metastore, a cluster, Kafka, Trino (needs Java 25), Flink
	@scripts/run-platform

.PHONY: test
test:  ## the checks, with the time that each took; CI runs test-slow as well
	@scripts/checks setup-dev dbt-test,pytest-incremental+lint,types,docs,pytest-rest,pytest-dbt

.PHONY: setup
setup:  ## the environment in .venv: packages and jars, both from locks (nearly instant when complete)
	@PYTHONPATH=scripts $(PYTHON) -m headwaters.devkit.environment

.PHONY: setup-dev
setup-dev:  ## the same, with what the checks need
	@PYTHONPATH=scripts $(PYTHON) -m headwaters.devkit.environment --dev

.PHONY: lint
lint: setup-dev  ## ruff over the Python, sqlfluff over the SQL
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/ruff format --quiet --check $(CODE) || { echo "not formatted: run make format"; exit 1; }
	@# its workers leave a semaphore behind now and then, of which Python warns
	@PYTHONWARNINGS=ignore $(BIN)/sqlfluff lint --disable-progress-bar --processes 2 $(SQL) | sed "/^All Finished!$$/d"

.PHONY: format
format: setup-dev  ## put the Python in form
	@$(BIN)/ruff check --quiet --fix $(CODE)
	@$(BIN)/ruff format --quiet $(CODE)

.PHONY: types
types: setup-dev  ## mypy, strict
	@$(BIN)/mypy $(CODE)

.PHONY: docs
docs: setup-dev  ## the site of docs/, in target/site; links, anchors and places of pages are checked
	@# with --quiet, it counts no warnings and so fails at none
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --config-file conf/mkdocs.yml 2>&1 | sed "/^INFO /d"

.PHONY: dbt-test
dbt-test: setup-dev  ## dbt build (models, unit tests, data tests) on the sample data, in a lake of its own
	@scripts/dbt-test

.PHONY: pytest
pytest: setup-dev  ## the Python tests on one shared Spark, and a selection of dbt's published tests on another
	@$(BIN)/python -m pytest -q
	@$(BIN)/python -m pytest -q tests/adapter

# The same in two halves, each on a Spark of its own: `make test` runs two Sparks at a time, since three take longer on two cores.
# test_c* (the compiled statements, for the most part) goes with the rest, which would otherwise end three minutes before the other half.
.PHONY: pytest-incremental pytest-rest
pytest-incremental: setup-dev
	@$(BIN)/python -m pytest -q tests/python/incremental --ignore-glob="*/incremental/test_c*"
pytest-rest: setup-dev
	@$(BIN)/python -m pytest -q --ignore-glob="*/incremental/test_[!c]*"

# dbt's published tests have a Spark of their own: their fixtures change the process that runs dbt.
.PHONY: pytest-dbt
pytest-dbt: setup-dev
	@$(BIN)/python -m pytest -q tests/adapter

.PHONY: test-slow
test-slow: setup-dev  ## the tests that take their minutes; CI runs them as well
	@$(BIN)/python -m pytest -q -m slow
	@$(BIN)/python -m pytest -q -m slow tests/adapter

.PHONY: test-platform
test-platform: setup-dev  ## the tests on the servers around the project: S3 (needs Go), a metastore, a cluster, Trino (needs Java 25), Flink (TRANSACTIONS=10000 for more raced commits, KILLS=200 for more kills)
	@TRANSACTIONS=$(or $(TRANSACTIONS),60) KILLS=$(or $(KILLS),10) $(BIN)/python -m pytest -q -m platform

.PHONY: dbt-tests
dbt-tests: setup-dev  ## all of dbt's published tests, with their results in docs/dbt-tests.md
	@$(BIN)/python -m pytest -q -m "slow or quick" --record tests/adapter; $(BIN)/python tests/adapter/page.py

.PHONY: soak
soak: setup-dev  ## 1,000 kill -9 of ingestion, audited (resumable; KILLS=50 for fewer)
	@PYTHONPATH=scripts $(BIN)/python tests/python/soak.py $(or $(KILLS),1000)

.PHONY: bench
bench: setup-dev  ## the benchmarks: results in benchmarks/results, ratios in docs/benchmarks.md
	@$(BIN)/python -m benchmarks

.PHONY: bench-edges
bench-edges: setup-dev  ## the HTTP endpoint, and publishing
	@$(BIN)/python -m benchmarks edges publish

bench-%: setup-dev  ## one of them: bench-brokerage, bench-dbt-start, bench-decision-support, bench-edges, bench-file-ingestion, bench-incremental, bench-ingest, bench-kafka-delta-ingest, bench-maintenance, bench-platform, bench-publish, bench-review
	@$(BIN)/python -m benchmarks $*

.PHONY: soak-incremental
soak-incremental: setup-dev  ## random histories of incremental runs, alone, killed and two at a time; hours, resumable (HISTORIES=100 for fewer)
	@export PYTHONPATH=scripts:tests/python; \
	$(BIN)/python -m incremental.fuzz --histories $(or $(HISTORIES),1000); \
	$(BIN)/python -m incremental.fuzz --how killed --first 2001 --histories 80; \
	$(BIN)/python -m incremental.fuzz --how paired --first 3001 --histories 40
	@ALIAS_ROUNDS=20 $(BIN)/python -m pytest -q -m slow tests/python/incremental/test_aliases.py

.PHONY: soak-analysis
soak-analysis: setup-dev  ## 10,000 random queries of each of five kinds against the rules of the SQL analysis, and 100 histories (COUNT=100 HISTORIES=2 for fewer)
	@PYTHONPATH=scripts:tests/python $(BIN)/python -m analysis.queries $(or $(COUNT),10000)
	@PYTHONPATH=scripts:tests/python $(BIN)/python -m analysis.refreshes $(or $(HISTORIES),100)

.PHONY: clean
clean:  ## remove everything that was made: environment, lake, target, logs
	@[ ! -x $(BIN)/headwaters ] || $(BIN)/headwaters engine stop
	rm -rf .venv lake target logs benchmarks/work

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):[^#]*## /\1\t/' | expand -t 20
