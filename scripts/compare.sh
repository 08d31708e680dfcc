#!/usr/bin/env bash
# A fair comparison from one TOML file.  scripts/compare.sh CONFIG [--output DIR] [--confirm] [--jobs N] [--threads N]
# The same command again goes on where it stopped; docs/how-to/compare_fairly.md says what a CONFIG holds.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
exec "$root/.venv/bin/python" "$root/experiments/compare.py" "$@"
