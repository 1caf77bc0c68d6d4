# make test PYTHON=python3.12 PIP_ARGS="--no-index --find-links wheels"
PYTHON ?= python3
PIP_ARGS ?=
PYTEST_ARGS ?= -n 2 --dist worksteal
NOX_ARGS ?=
UPSTREAM_ARGS ?= --jobs 2

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SOURCES := exir torch_patches test setup.py noxfile.py

# Tests and linters run two at a time; more threads only get in each other's way.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-versions upstream-test fuzz bench lint format clean

demo: $(INSTALLED)
	$(BIN)/python test/demo/demo.py

test: $(INSTALLED)
	$(BIN)/pytest $(PYTEST_ARGS)

# With other releases of torch and executorch, from the index: slow, and 30 GB in .nox.
test-versions: $(INSTALLED)
	$(BIN)/nox $(NOX_ARGS)

# The tests that executorch ships: unpatched, patched, and with the flag on by default.
# make upstream-test UPSTREAM_ARGS="exir/emit exir/tests/test_passes.py --modes forced"
upstream-test: $(INSTALLED)
	$(BIN)/python test/upstream/run_upstream.py $(UPSTREAM_ARGS)

# Random programs, many more than make test runs: make fuzz FUZZ_EXAMPLES=20000
fuzz: export FUZZ_EXAMPLES ?= 5000
fuzz: $(INSTALLED)
	$(BIN)/pytest --hypothesis-show-statistics \
		test/exir/synthesized_constants/test_property.py

bench: $(INSTALLED)
	$(BIN)/python test/bench/import_time.py
	$(BIN)/python test/bench/pass_time.py
	$(BIN)/python test/bench/peak_memory.py

# mypy finds packages by their paths, so it is shown the repository root under the name
# that it is installed as. Last, the files that rendering makes of upstream's.
lint: $(INSTALLED)
	$(BIN)/ufmt check $(SOURCES)
	$(BIN)/flake8 $(SOURCES)
	mkdir -p .mypy_cache/root
	ln -sfn "$(CURDIR)" .mypy_cache/root/executorch
	MYPYPATH=.mypy_cache/root:test/upstream $(BIN)/mypy \
		$(addprefix .mypy_cache/root/executorch/,exir torch_patches test)
	$(BIN)/python test/torch_patches/rendering/lint.py

format: $(INSTALLED)
	$(BIN)/ufmt format $(SOURCES)

clean:
	rm -rf $(VENV) .nox build dist *.egg-info .mypy_cache .pytest_cache .hypothesis

$(INSTALLED): setup.py pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "error: $(PYTHON) was not found; name one with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' || { \
		echo "error: $$($(PYTHON) --version) is not supported: executorch 1.5 needs" \
			"Python 3.10 to 3.13; name one with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e '.[test,demo,lint,versions]'
	touch $@
