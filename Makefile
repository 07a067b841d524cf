.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST := .venv-oldest
OLDEST_READY := $(OLDEST)/.ready
AIRFLOW := .venv-airflow
AIRFLOW_READY := $(AIRFLOW)/.ready
# What meets Spark: its operators, its failures, a release from plan to seal.
MEET_SPARK := tests/frames/test_aggregate.py tests/frames/test_frames_expressions.py tests/frames/test_sources.py \
	tests/frames/test_selection.py tests/frames/test_every_measure.py tests/frames/test_survey_frames.py \
	tests/clusters/test_keys_nowhere.py::test_a_worker_that_fails_tells_neither_key_nor_row
# The Spark lines between the oldest and the locked one, for `make test-versions`.
LINES := 4.0.5 4.1.4 4.2.1
# A file's tests stay in one process, where its fixtures are made once; files go in the order of the folders.
TWO_PROCESSES := --numprocesses=2 --dist=loadfile --no-loadscope-reorder
# Tests start hundreds of processes: without bytecode on disk each one compiles whatever it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-whole test-oldest test-versions airflow test-airflow package check format lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

setup: $(READY)  ## make .venv with everything the project needs (seconds when nothing changed)

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml
	@scripts/prerequisites $(PYTHON)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(OLDEST_READY): requirements/uv.txt requirements/oldest.txt pyproject.toml | $(READY)
	@$(PYTHON) -m venv $(OLDEST)
	@$(BIN)/uv pip sync --quiet --python $(OLDEST)/bin/python --require-hashes requirements/oldest.txt
	@$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

$(AIRFLOW_READY): requirements/uv.txt requirements/airflow.txt | $(READY)
	@$(PYTHON) -m venv $(AIRFLOW)
	@$(BIN)/uv pip sync --quiet --python $(AIRFLOW)/bin/python --require-hashes requirements/airflow.txt
	@touch $@

$(LINES:%=.venv-%/.ready): .venv-%/.ready: requirements/dev.txt pyproject.toml | $(READY)
	@$(PYTHON) -m venv .venv-$*
	@$(BIN)/uv pip sync --quiet --python .venv-$*/bin/python --require-hashes requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python .venv-$*/bin/python pyspark==$*
	@$(BIN)/uv pip install --quiet --python .venv-$*/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## set up, then run the demo: private releases of the New York flights of 2013
	@$(BIN)/dp-spark demo

test: setup  ## set up, then run all tests, in two processes
	@$(BIN)/python -m pytest $(TWO_PROCESSES)

test-whole: setup  ## the long forms of the proofs on clusters
	@$(BIN)/python -m pytest -m whole

test-oldest: setup $(OLDEST_READY)  ## the oldest Spark line: the same digest, and the tests that meet Spark
	@$(BIN)/python tests/clusters/compare_lines.py $(BIN)/python $(OLDEST)/bin/python
	@$(OLDEST)/bin/python -m pytest $(TWO_PROCESSES) --durations=5 -p no:warnings $(MEET_SPARK)

test-versions: setup $(OLDEST_READY) $(LINES:%=.venv-%/.ready)  ## one digest on every Spark line
	@$(BIN)/python tests/clusters/compare_lines.py $(OLDEST)/bin/python $(LINES:%=.venv-%/bin/python) $(BIN)/python

airflow: $(AIRFLOW_READY)  ## make .venv-airflow: Airflow 3, in an environment without this package

test-airflow: setup airflow  ## the DAGs, and two nights of a release under a real scheduler
	@DP_SPARK_REQUIRE_AIRFLOW=1 $(BIN)/python -m pytest tests/airflow

package: setup  ## dist/: the wheel, the jobs, an archived environment for a cluster whose workers have $(PYTHON)
	@scripts/package $(PYTHON)

check: setup  ## lint, format, strict types, imports between rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/test_architecture.py

format: setup  ## let the tools format and mend what they can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: setup  ## resolve dependencies anew and export the requirement lists
	@$(BIN)/uv lock --upgrade
	@$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --extra spark --extra postgres --extra delta --extra iceberg --extra duckdb --extra lineage --extra demo -o requirements/jobs.txt
	@$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --extra postgres --extra delta --extra iceberg --extra duckdb --extra lineage -o requirements/cluster.txt
	@$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --extra spark --extra connect --extra postgres --extra delta --extra iceberg --extra duckdb --extra lineage --extra demo --group dev -o requirements/dev.txt
	@$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --extra postgres --extra demo --group dev --group oldest -o requirements/oldest.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url requirements/airflow.in -o requirements/airflow.txt

clean:  ## remove environments and caches (never .dp_spark: it holds the ledger)
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
