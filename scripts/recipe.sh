#!/usr/bin/env bash
# A published recipe, in full or in its short version.  scripts/recipe.sh experiments/recipes/NAME.toml [--data DIR] [--short]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
exec "$root/.venv/bin/python" "$root/experiments/recipe.py" "$@"
