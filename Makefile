# Millrace on one machine. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Bytecode is kept, whatever the caller's environment says: without it every process compiles some 1,700 modules.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
MEMBERS := $(sort $(wildcard libs/*/pyproject.toml *-svc/pyproject.toml api-gateway/pyproject.toml))
SOURCES := $(wildcard libs/*/src *-svc/src api-gateway/src)
EDITABLE := $(foreach member,$(MEMBERS),-e $(dir $(member)))
# A part of the tests' time goes into waiting: as many processes as cores leave these idle. Each process takes
# tests that lie together, so that what a folder's tests load and keep is loaded by one of them.
FAST = $(PY) -m pytest -n $$(($$($(PY) -c "import os; print(os.cpu_count())") * 3 / 2)) --dist worksteal -m "not java and not stack" --ignore=tests/integration tests
# CASES may be given several times (make itself keeps the last alone), or name several paths at once.
GIVEN := $(shell tr '\0' '\n' 2>/dev/null < /proc/$$PPID/cmdline | sed -n 's/^CASES=//p' | tr '\n' ' ')

.PHONY: help venv jars up down status logs demo check fuzz lint style types imports test conformance chaos envelope bench trace figures clean settings lock audit java

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

venv: $(VENV)/.synced ## the Python environment: locked packages, and ours as editable ones

jars: java venv ## the Java jars of ivy.xml
	@$(PY) -m millrace jars

up: java venv ## start Kafka and the four services in the background; TLS=1: they answer over HTTPS
	@$(if $(TLS),MILLRACE_TLS=$(TLS)) $(PY) -m millrace up

down: venv ## stop Kafka and the services
	@$(PY) -m millrace down

status: venv ## show what is running
	@$(PY) -m millrace status

logs: venv ## show the ends of all logs (millrace logs -f follows them)
	@$(PY) -m millrace logs

demo: java venv ## streams over real data, checked against DuckDB
	@$(if $(TLS),MILLRACE_TLS=$(TLS)) $(PY) -m millrace demo

style: venv
	@echo "== ruff";         $(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .

types: venv
	@echo "== mypy";         $(VENV)/bin/mypy $(SOURCES)

imports: venv
	@echo "== import-linter"; $(VENV)/bin/lint-imports

lint: venv # the three side by side; all of them report
	@$(MAKE) --jobs --keep-going --output-sync=target style types imports

ifdef PKG
check: venv
	@places=$$($(PY) -m tests.packages "$(PKG)"); read -r source tests <<< "$$places"; \
	$(VENV)/bin/ruff check --quiet "$$source" "$$tests"; $(VENV)/bin/ruff format --check --quiet "$$source" "$$tests"; \
	if [[ "$$source" == *src/* || "$$source" == *src ]]; then $(VENV)/bin/mypy "$$source"; fi; \
	$(PY) -m pytest -q -m "not java and not stack" --hypothesis-profile=check -n $$(nproc) "$$tests"
else
check: lint ## style, types, imports, unit and contract tests, every eighth of the slow ones (no Java); PKG=core/trigger: all of one package
	@echo "== tests";        $(FAST) -q --hypothesis-profile=check --sample
endif

fuzz: venv ## random property tests, 1,000 examples each: make fuzz SECONDS=600 (SEED=… TESTS=… repeat a failure)
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(TESTS)

# The JVMs of tests live for a minute or two: the optimising compiler would take more time than it saves.
test: export JAVA_TOOL_OPTIONS := -XX:TieredStopAtLevel=1 $(JAVA_TOOL_OPTIONS)
test: PROFILE := $(or $(PROFILE),test)
test: java lint jars ## all tests: check, integration, the whole stack, conformance cases (PROFILE=full: five times the examples)
	@failed=0; \
	$(FAST) --hypothesis-profile=$(PROFILE) || failed=1; \
	$(PY) -m tests.fuzz --seconds 20 --seed 1 tests/unit/wire tests/unit/timeline || failed=1; \
	$(PY) -m pytest -m "java or stack" --hypothesis-profile=$(PROFILE) --durations=40 tests/integration || failed=1; \
	exit $$failed

conformance: java venv jars ## run conformance cases: make conformance CASES="file-or-folder …"
	@if [ -z "$(strip $(GIVEN) $(CASES))" ]; then echo 'make conformance needs CASES="file-or-folder …"' >&2; exit 1; fi
	@$(if $(TLS),MILLRACE_TLS=$(TLS)) $(PY) -m millrace_conformance $(or $(strip $(GIVEN)),$(CASES))

# Seeds start many JVMs, which live for minutes: as in test, the optimising compiler would cost more than it saves.
chaos: export JAVA_TOOL_OPTIONS := -XX:TieredStopAtLevel=1 $(JAVA_TOOL_OPTIONS)
chaos: java venv jars ## kill and pause every part under load, check every window: make chaos SEEDS=1..20 MINUTES=2
	@$(PY) -m tests.chaos --seeds $(or $(SEEDS),1..20) --minutes $(or $(MINUTES),2)

envelope: java venv jars ## random hostile statements against a stack of its own: each must get an answer or one of Millrace's own errors within SECONDS=10 (SEED=… repeats a run)
	@seed=$(or $(SEED),$$(($$RANDOM * 32768 + $$RANDOM))); echo "envelope: seed $$seed (to repeat: make envelope SEED=$$seed)"; \
	MILLRACE_ENVELOPE_SECONDS=$(or $(SECONDS),10) $(PY) -m pytest -q -s --hypothesis-profile=fuzz --hypothesis-seed=$$seed \
	  tests/integration/test_envelope.py

bench: java venv jars ## measure the whole stack, write bench/results/latest.json
	@$(PY) -m bench

trace: java venv jars ## trace rows through a stack: how long each part takes, and one row's way as bench/results/trace.svg
	@$(PY) -m bench.trace

figures: venv ## write the tables of docs/BENCH.md from bench/published
	@$(PY) -m bench.table

clean: ## stop the stack; remove its data, the jars, the environment and all caches
	@if [ -x $(PY) ]; then $(PY) -m millrace down || true; fi
	rm -rf .millrace .jars $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

settings: venv ## write docs/SETTINGS.md from the settings
	@$(PY) -m tests.settings

lock: $(UV) ## resolve all dependencies again and write requirements.lock (docs/decisions/0002)
	@$(UV) lock --upgrade
	@$(UV) export --quiet --all-packages --all-extras --no-emit-workspace --no-header --no-annotate \
	  --format requirements-txt --output-file requirements.lock
	@wc -l requirements.lock

audit: venv ## find known vulnerabilities of the locked packages; packages that cannot be looked up are listed
	@$(PY) -m tests.audit

java: # says in one sentence what is wrong, before anything long is done
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	if ! version=$$("$$java" -version 2>&1); then echo "Java 17 or newer is required, but $$java cannot be run" >&2; exit 1; fi; \
	version=$$(sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' <<< "$$version" | head -1); \
	if [ "$${version:-0}" -lt 17 ]; then echo "Java 17 or newer is required, but $$java is Java $${version:-unknown}" >&2; exit 1; fi

# A virtual environment by the first Python that is new enough, with uv in it.
$(UV):
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then echo "Python 3.11 or newer is required, but there is none on PATH (name one with PYTHON=…)" >&2; exit 1; fi; \
	if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then echo "Python's venv module is required: install it for $$found (on Debian: apt install python3-venv)" >&2; exit 1; fi; \
	if [ ! -x $(PY) ]; then echo "creating $(VENV) with $$($$found --version)"; "$$found" -m venv $(VENV); fi; \
	$(PY) -m ensurepip >/dev/null; \
	if ! why=$$($(PY) -m pip install --quiet --disable-pip-version-check "uv>=0.8" 2>&1); then \
	  echo "pip could not install uv from the package index that it is configured for: $$(tail -1 <<< "$$why")" >&2; exit 1; \
	fi

# Everything is pinned and checked by hash, what builds our own packages included: no step resolves anything.
$(VENV)/.synced: $(UV) requirements.lock pyproject.toml $(MEMBERS)
	@echo "installing the packages of requirements.lock"
	@ln -f $(UV) $(VENV)/.uv # sync takes uv itself out of an environment that uv has made
	@export VIRTUAL_ENV=$(CURDIR)/$(VENV); \
	$(VENV)/.uv pip sync --require-hashes requirements.lock; \
	$(VENV)/.uv pip install --quiet --no-deps --no-build-isolation $(EDITABLE); \
	if [ ! -x $(UV) ]; then $(VENV)/.uv pip install --quiet "uv>=0.8"; fi
	@touch $@
