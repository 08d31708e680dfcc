#!/usr/bin/env bash
# Open MPI: stage 1 -> PCA -> stage 2 -> evaluate on several ranks, started from one of the machines. Copy it, and
#   scripts/cluster/mpirun.sh                                   4 ranks on this machine, or, with other values,
#   HOSTS=node1:4,node2:4 DATA=/data/photos RUNS=runs/photos scripts/cluster/mpirun.sh
# Several machines need ssh without a password (none inside a Slurm job), and must see the same files. Started again, it goes on
# where it stood.
set -euo pipefail

dimred=${DIMRED:-build/bin/dimred}
data=${DATA:-default}
runs=${RUNS:-runs/mpirun}
hosts=${HOSTS:-localhost:4}
read -ra stage_1 <<< "${STAGE_1:---epochs 18 --snapshots_per_epoch 2 --global_batch_size 256}"
read -ra stage_2 <<< "${STAGE_2:---epochs 2 --global_batch_size 256}"

# Open MPI tells its ranks no place to meet: where HOSTS has several, they meet at the first.
first=${hosts%%[:,]*}
options=(--host "$hosts" --bind-to none)
if [[ $hosts == *,* ]]; then
  options+=(-x "MASTER_ADDR=${MASTER_ADDR:-$first}" -x "MASTER_PORT=${MASTER_PORT:-29500}")
fi
# mpirun's own SIGTERM leaves ranks one second, by default, before SIGKILL: too short for a step and its save.
options+=(--mca odls_base_sigkill_timeout 120)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)

step() {
  local code=0 since=$SECONDS
  mpirun "${options[@]}" "$dimred" "$@" || code=$?
  echo "dimred $1 ended with $code after $((SECONDS - since)) s"
  [ "$code" = 0 ] || exit "$code"
}

mkdir -p "$runs"
step stage1 --data "$data" --output "$runs/one" "${stage_1[@]}"
step pca "$runs/one" --output "$runs/pca_mat.npy" --overwrite
step stage2 --data "$data" --checkpoint "$runs/one" --pca_mat "$runs/pca_mat.npy" --output "$runs/two" "${stage_2[@]}"
step evaluate "$runs/two"
