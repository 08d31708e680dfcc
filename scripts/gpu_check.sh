#!/bin/sh
# Tests and figures of dimred on a CUDA device in under nine minutes, as a table and gpu_check/gpu_check.json.
# In a repository with a finished build, or in an unpacked bundle (scripts/bundle.sh): docs/gpu.md.
#   gpu_check.sh [--quick] [--device cuda:1] [--minutes 8.8] [--parts NAME ...] [--output FOLDER]
#   DIMRED_PYTHON    a Python that has torch 2.11.0+cu130; default: .venv's, in a bundle python3
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -f "$here/bundle.json" ]; then
  sources=$here/python
  python=${DIMRED_PYTHON:-python3}
else
  sources=$(dirname "$here")
  python=${DIMRED_PYTHON:-$sources/.venv/bin/python}
fi
exec "$python" "$sources/benchmarks/gpu_check.py" "$@"
