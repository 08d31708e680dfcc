#!/usr/bin/env bash
# torchrun: stage 1 -> PCA -> stage 2 -> evaluate on several ranks. Copy it, and start it on every machine with the same values:
#   NODES=2 RANKS_PER_NODE=4 FIRST=node1 scripts/cluster/torchrun.sh
# FIRST is the machine that the others ask for the way; it must stay. When another dies, one that is started in its place is taken
# in. NODES=1:2 goes on without it meanwhile, on fewer ranks, after a last call of LAST_CALL seconds; the numbers of ranks must
# divide the global batch. The machines must see the same files.
set -euo pipefail

dimred=${DIMRED:-build/bin/dimred}
torchrun=${TORCHRUN:-.venv/bin/torchrun}
data=${DATA:-default}
runs=${RUNS:-runs/torchrun}
read -ra stage_1 <<< "${STAGE_1:---epochs 18 --snapshots_per_epoch 2 --global_batch_size 256}"
read -ra stage_2 <<< "${STAGE_2:---epochs 2 --global_batch_size 256}"

# Else PyTorch 2.11 keeps the meeting place of its first start, and a machine that comes later waits for it in vain.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

step() {
  local code=0 since=$SECONDS
  "$torchrun" --no-python --nnodes "${NODES:-1}" --nproc-per-node "${RANKS_PER_NODE:-1}" --max-restarts "${RESTARTS:-3}" \
    --rdzv-backend c10d --rdzv-endpoint "${FIRST:-localhost}:${MASTER_PORT:-29400}" --rdzv-id "dimred_$1" --rdzv-conf "last_call_timeout=${LAST_CALL:-30}" \
    "$dimred" "$@" || code=$?
  echo "dimred $1 ended with $code after $((SECONDS - since)) s"
  [ "$code" = 0 ] || exit "$code"
}

mkdir -p "$runs"
step stage1 --data "$data" --output "$runs/one" "${stage_1[@]}"
step pca "$runs/one" --output "$runs/pca_mat.npy" --overwrite
step stage2 --data "$data" --checkpoint "$runs/one" --pca_mat "$runs/pca_mat.npy" --output "$runs/two" "${stage_2[@]}"
step evaluate "$runs/two"
