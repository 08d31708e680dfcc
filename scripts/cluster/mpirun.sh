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
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)

# SIGTERM would reach the ranks through mpirun one second before SIGKILL; SIGUSR1 it passes on and no more: every rank saves, and
# leaves with 143. (--mca odls_base_sigkill_timeout N makes mpirun sleep 2 N seconds, whatever the ranks do.)
step() {
  local code=0 since=$SECONDS
  mpirun "${options[@]}" "$dimred" "$@" &
  trap 'kill -USR1 $!' TERM INT  # a job in the background ignores Ctrl-C
  wait $! || code=$?
  if kill -0 $! 2> /dev/null; then code=0; wait $! || code=$?; fi  # the first wait ended by the signal
  trap - TERM INT
  echo "dimred $1 ended with $code after $((SECONDS - since)) s"
  [ "$code" = 0 ] || exit "$code"
}

mkdir -p "$runs"
step stage1 --data "$data" --output "$runs/one" "${stage_1[@]}"
step pca "$runs/one" --output "$runs/pca_mat.npy" --overwrite
step stage2 --data "$data" --checkpoint "$runs/one" --pca_mat "$runs/pca_mat.npy" --output "$runs/two" "${stage_2[@]}"
step evaluate "$runs/two"
