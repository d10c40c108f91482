# Commands for those who change simverify; `just` lists them.

python := ".venv/bin/python"

_list:
    @just --list

# Make the environment
setup:
    python3 -m venv .venv
    .venv/bin/pip install -e '.[dev]'
    .venv/bin/pre-commit install

# One test file or folder, in seconds
test +paths:
    {{python}} -m pytest -q -x {{paths}}

# The suite; `just suite --thorough` is all that a change has to pass
suite *options:
    {{python}} -m pytest -n 2 --dist worksteal {{options}}

# Lint and format
lint:
    .venv/bin/ruff check --fix .
    .venv/bin/ruff format .

# Small changes to what decides, and which of them no test notices
mutants:
    .venv/bin/mutmut run
    .venv/bin/mutmut results

# The pages, into build/docs
docs:
    {{python}} -m sphinx -W -b html docs build/docs

# Outputs on pages, pictures and example reports, made again
generated:
    {{python}} tests/docs/examples.py
    {{python}} docs/pictures.py
    {{python}} docs/example_reports.py

# All that the workflow checks, on a fresh environment
ci:
    .ci/run
