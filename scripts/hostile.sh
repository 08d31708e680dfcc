#!/usr/bin/env bash
# Tests what hostile files can do: repeats the faults that hostile users found, and mutates every kind of file at random. The script
# prints a table and needs a finished build. `--short` runs the part that tests/python/test_hostile.py runs.
#   scripts/hostile.sh [--short] [--mutations 500] [--seed 1] [--only TEXT] [--record FILE]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build hostile "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
PYTHONPATH=tests exec "${DIMRED_PYTHON:-.venv/bin/python}" -m hostile --build "${DIMRED_BUILD:-build}" "$@"
