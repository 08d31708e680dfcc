#!/usr/bin/env bash
# What a stranger's files may do: replays of the faults that hostile users found, and random mutations of every kind of file,
# as a table; needs a finished build. `--short` is what tests/python/test_hostile.py runs.
#   scripts/hostile.sh [--short] [--mutations 500] [--seed 1] [--only TEXT] [--record FILE]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build hostile "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
PYTHONPATH=tests exec "${DIMRED_PYTHON:-.venv/bin/python}" -m hostile --build "${DIMRED_BUILD:-build}" "$@"
