#!/usr/bin/env bash
# Tests FastNN's 32 networks: writes each network that is not built in, and trains each network one step on two made-up images.
#   scripts/models_check.sh [NAME ...]      default: all; prints a table; the exit code is 1 if a network fails
# The script needs .venv with requirements/test.txt (scripts/setup.sh --tests) and 8 GB of memory. It takes 15 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build models_check .venv/bin/python
exec .venv/bin/python experiments/models_check.py "$@"
