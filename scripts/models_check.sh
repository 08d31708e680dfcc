#!/usr/bin/env bash
# FastNN's 32 networks: each is written where it is not built in, and trains one step on two made-up images.
#   scripts/models_check.sh [NAME ...]      default: all; a table, and exit code 1 where one fails
# Needs .venv with requirements/test.txt (scripts/setup.sh --tests) and 8 GB of memory; 15 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build models_check .venv/bin/python
exec .venv/bin/python experiments/models_check.py "$@"
