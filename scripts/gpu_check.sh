#!/bin/sh
# Tests of dimred on a CUDA device (tests/device), then its figures there (experiments/benchmarks/device.py), in under nine minutes.
# In a repository with a finished build, or in an unpacked bundle (scripts/bundle.sh): docs/how-to/check_a_gpu.md.
#   gpu_check.sh [options of experiments/benchmarks/device.py: --quick --device cuda:1 --minutes 7 --parts NAME ... --output FOLDER]
#   DIMRED_DEVICE    of the tests: cuda:N, or cpu, which checks the tests themselves; default cuda
#   DIMRED_PYTHON    a Python that has torch 2.11.0+cu130; default: .venv's, in a bundle python3
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -f "$here/bundle.json" ]; then
  sources=$here/python
  python=${DIMRED_PYTHON:-python3}
  "$python" "$sources/scripts/bundle/torch_libraries.py" "$here" >/dev/null
  export PYTHONPATH="$sources/packages${PYTHONPATH:+:$PYTHONPATH}" # pytest
else
  sources=$(dirname "$here")
  python=${DIMRED_PYTHON:-$sources/.venv/bin/python}
fi
status=0
"$python" -m pytest -q -rs -p no:cacheprovider "$sources/tests/device" || status=1
"$python" "$sources/experiments/benchmarks/device.py" "$@" || status=$?
exit "$status"
