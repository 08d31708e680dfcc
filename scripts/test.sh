#!/usr/bin/env bash
# README command 2: setup, build and every test. After the downloads it takes 22 to 32 minutes on 2 cores; the build takes 8 to 12 of them.
#   scripts/test.sh [ctest options, e.g. -R pca]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --tests
log=build/test.log
status=0
ctest --test-dir build --output-on-failure -j "${DIMRED_JOBS:-$(nproc)}" "$@" | tee "$log" || status=$?
echo
echo "The 10 slowest tests:"
grep -E 'Test +#' "$log" | sed -E 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*/\2 s  \1/' | sort -rn | sed -n 1,10p
echo
[[ $status == 0 ]] || grep -E '^(E  |FAILED |ERROR |\[  FAILED  \])|: Failure$' "$log" | cut -c 1-240 | tail -40 || true  # why, at the end of a long log
grep -E 'tests passed|tests failed' "$log" || true
exit "$status"
