# Everything on a fresh machine, from nothing: each target makes its own virtual environment.
PYTHON ?= python3
DEMO = .venv-demo/bin
TEST = .venv/bin

.PHONY: demo test bench install-test clean

demo: .venv-demo/.installed
	$(DEMO)/agentrig demo

.venv-demo/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-demo
	$(DEMO)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

install-test: .venv/.installed

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(TEST)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(TEST)/python -m pip install --quiet --disable-pip-version-check -e ".[rag,onnx,qdrant]" --group dev
	touch $@

# The suite starts Python several hundred times: compiled modules are kept, whatever the shell says.
test: export PYTHONDONTWRITEBYTECODE =
# Files with Chinese names cannot exist in a locale without them.
test: export PYTHONUTF8 = 1
test: install-test
	$(TEST)/ruff check .
	$(TEST)/ruff format --check .
	$(TEST)/mypy
	$(TEST)/coverage erase
	$(TEST)/coverage run -m pytest -n auto --dist worksteal
	$(TEST)/coverage combine --quiet
	$(TEST)/coverage report --skip-covered | tail -n 40

bench: install-test
	$(TEST)/python -m pytest benchmarks -o testpaths=benchmarks --benchmark-columns=min,median,stddev,rounds

clean:
	rm -rf .venv .venv-demo .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
