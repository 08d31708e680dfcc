#!/usr/bin/env bash
# Runs a fair comparison from one TOML file.  scripts/compare.sh CONFIG [--output DIR] [--confirm] [--jobs N] [--threads N]
#   --engine dask | slurm   runs on the workers of a Dask scheduler; its packages are installed into .venv on first use
# Run the same command again to continue a stopped comparison. docs/how-to/compare_fairly.md says what a CONFIG holds.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/needs_build.sh
. "$root"/scripts/needs_build.sh
needs_build compare "$root/.venv/bin/python"
if [[ " $* " =~ \ --engine[=\ ](dask|slurm)\  ]]; then
  required=$root/requirements/engine.txt stamp=$root/.venv/.requirements-engine
  if ! cmp -s "$required" "$stamp"; then
    "$root/.venv/bin/python" "$root/experiments/compare.py" --dry_run "$@" >/dev/null # looks at the words first
    "$root/.venv/bin/python" -m pip install -q --disable-pip-version-check -r "$required" >&2
    cp "$required" "$stamp"
  fi
fi
exec "$root/.venv/bin/python" "$root/experiments/compare.py" "$@"
