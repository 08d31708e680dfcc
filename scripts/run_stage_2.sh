#!/usr/bin/env bash
# Stage 2: descent in the subspace.  scripts/run_stage_2.sh DATA CHECKPOINT [PCA_MAT] [--ranks R] [options of dimred stage2]
# CHECKPOINT is a run folder of stage 1, a state in it, or a weights file; without PCA_MAT the PCA of the
# run's snapshots comes first, with it the file is reused. The run folder is runs/stage2 unless --output
# says another. --boost FILE takes options from MindSpore's boost dictionary; --ranks as for run_stage_1.sh.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: scripts/run_stage_2.sh DATA CHECKPOINT [PCA_MAT] [--ranks R] [options]   (options: dimred stage2 --help all)" >&2
  exit 2
fi
# shellcheck source=scripts/local_ranks.sh
. "$(dirname "${BASH_SOURCE[0]}")/local_ranks.sh"
arguments=(--checkpoint "$2")
[ "$1" = default ] || arguments+=(--data "$1")
shift 2
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  arguments+=(--pca_mat "$1")
  shift
fi
output=(--output runs/stage2)
for option in "$@"; do case $option in --output | --output=* | --config | --config=*) output=() ;; esac; done
start stage2 "${arguments[@]}" "${output[@]}" "$@"
