#!/usr/bin/env bash
# Stage 2: descent in the subspace.  scripts/run_stage_2.sh DATA CHECKPOINT [PCA_MAT] [--ranks R] [options of dimred stage2]
# CHECKPOINT is a run folder of stage 1, a state in that folder, or a weights file. Without PCA_MAT the script first computes the PCA of
# the run's snapshots; with PCA_MAT it uses that file. The run folder is runs/stage2 unless --output gives another folder. DATA may be
# default for a run that was trained on the default data, Fashion-MNIST.
# --boost FILE reads options from MindSpore's boost dictionary. --ranks works as in run_stage_1.sh.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: scripts/run_stage_2.sh DATA CHECKPOINT [PCA_MAT] [--ranks R] [options]   (options: dimred stage2 --help all)" >&2
  exit 2
fi
# shellcheck source=scripts/local_ranks.sh
. "$(dirname "${BASH_SOURCE[0]}")/local_ranks.sh"
# A run keeps its own data, so default must mean the same data.
if [ "$1" = default ]; then
  for folder in "$2" "$(dirname "$2")" "$(dirname "$2")/.."; do
    [ -f "$folder/config.toml" ] || continue
    data=$(sed -n 's/^data = "\(.*\)"$/\1/p' "$folder/config.toml")
    # A run may have the folder of Fashion-MNIST by its name.
    case $data in "" | /usr/share/datasets/fashion-mnist | /usr/share/datasets/fashion-mnist/) break ;; esac
    echo "scripts/run_stage_2.sh: error: DATA is default, which is Fashion-MNIST, but $2 was trained on $data; give DATA as $data" >&2
    exit 2
  done
fi
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
