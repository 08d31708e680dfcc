#!/bin/sh
# Checks whether dimred runs on a CUDA device with the right numbers, and how fast. Parts (a) to (j) take nine minutes, and each part
# writes its result when it ends. The script runs in a repository with a finished build, or in an unpacked bundle (scripts/bundle.sh);
# docs/how-to/check_a_gpu.md explains it.
#   gpu_check.sh [--minutes 9] [--device cuda:1] [--parts LETTER ...] [--output FOLDER]; --help explains the options
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
  # shellcheck source=scripts/needs_build.sh
  . "$here/needs_build.sh"
  build=${DIMRED_BUILD:-$sources/build}
  case " $* " in
    *' --help '*) ;;
    *)
      needs_build gpu_check --tests "$python" "$build/bin/device_algebra" "$build/bin/engine_test"
      "$python" -c 'import pytest' 2>/dev/null || { echo "gpu_check: $python needs pytest; run scripts/setup.sh --tests" >&2 && exit 2; }
      ;;
  esac
fi
exec "$python" "$sources/experiments/benchmarks/gpu/check.py" "$@"
