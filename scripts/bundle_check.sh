#!/usr/bin/env bash
# Unpacks a bundle's archive and runs its check on the CPU, in an environment that has only a Python with torch and pytest. It tests
# a bundle before a machine with a CUDA device has it. It takes about a minute.
#   scripts/bundle_check.sh [ARCHIVE] [options of gpu_check.sh]
#   ARCHIVE          default runs/bundle.tar.xz
#   DIMRED_PYTHON    the Python, default .venv's; another version than the build's makes the check stronger
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
case "${1:-}" in '' | -*) set -- "$root/runs/bundle.tar.xz" "$@" ;; esac
archive=$(realpath "$1")
python=${DIMRED_PYTHON:-$root/.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m tarfile -e "$archive" "$folder"
bundle=$(dirname "$folder"/*/bundle.json)
env -i PATH=/usr/bin:/bin DIMRED_PYTHON="$python" OMP_NUM_THREADS=1 "$bundle/gpu_check.sh" --device cpu --output "$folder/results" "${@:2}"
