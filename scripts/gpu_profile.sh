#!/bin/sh
# Where a step's time goes on a CUDA device: the profiler's timeline of one step of each stage, as a table and as files for
# chrome://tracing, and with ncu the bytes a second of stage 2's kernels. In a repository or in an unpacked bundle.
#   gpu_profile.sh [--minutes 4] [--device cuda:1] [--networks NAME ...] [--output FOLDER] [--scratch FOLDER]; --help explains them
#   DIMRED_PYTHON    as of gpu_check.sh
# shellcheck source=scripts/gpu_python.sh
. "$(dirname "$0")/gpu_python.sh"
exec "$python" "$sources/experiments/benchmarks/gpu/timeline.py" "$@"
