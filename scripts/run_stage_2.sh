#!/usr/bin/env bash
# Stage 2: descent in the subspace.  scripts/run_stage_2.sh DATA CHECKPOINT [PCA_MAT] [options of dimred stage2]
# CHECKPOINT is a run folder of stage 1, a state in it, or a weights file; without PCA_MAT the PCA of the
# run's snapshots comes first, with it the file is reused. The run folder is runs/stage2 unless --output
# says another.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: scripts/run_stage_2.sh DATA CHECKPOINT [PCA_MAT] [options]   (options: dimred stage2 --help all)" >&2
  exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
arguments=(--checkpoint "$2")
[ "$1" = default ] || arguments+=(--data "$1")
shift 2
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  arguments+=(--pca_mat "$1")
  shift
fi
output=(--output runs/stage2)
for option in "$@"; do case $option in --output | --output=* | --config | --config=*) output=() ;; esac; done
exec "$root/build/bin/dimred" stage2 "${arguments[@]}" "${output[@]}" "$@"
