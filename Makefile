# make setup | demo | test | test-all | check
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready

.PHONY: setup demo test test-all check format clean
setup: $(STAMP)

$(STAMP): requirements/cpu.lock pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh $(VENV)

demo: setup
	@$(PY) -m jobs demo

test: setup
	@$(PY) -m pytest -m "not slow"

test-all: setup
	@$(PY) -m pytest

check: setup
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell

format: setup
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf $(VENV) .liftlock
