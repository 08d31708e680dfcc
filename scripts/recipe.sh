#!/usr/bin/env bash
# Runs a published recipe, in full or in a short version.  scripts/recipe.sh experiments/recipes/NAME.toml [--data DIR] [--short]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/needs_build.sh
. "$root"/scripts/needs_build.sh
needs_build recipe "$root/.venv/bin/python"
exec "$root/.venv/bin/python" "$root/experiments/recipe.py" "$@"
