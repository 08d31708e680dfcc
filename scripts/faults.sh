#!/usr/bin/env bash
# Tests kills, failing system calls, damaged files and values that are not finite, and prints a table. This is the long version of
# tests/python/test_faults.py. It needs a finished build and takes about half an hour on 2 cores.
#   scripts/faults.sh [--kills 500] [--seed 1] [--ranks 1,3] [--suites kills,writes,prefixes,damage,poison] ...
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build faults "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
PYTHONPATH=tests exec "${DIMRED_PYTHON:-.venv/bin/python}" -m faults --build "${DIMRED_BUILD:-build}" "$@"
