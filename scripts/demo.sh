#!/usr/bin/env bash
# README command 1: setup, then stage 1 -> PCA -> stage 2 on Fashion-MNIST. Two continuations of stage 1 train as many epochs as stage 2:
# one with the same schedule, one with a learning rate that falls to zero. The script prints a table and writes report.html.
# It takes 2.4 to 8.6 minutes on 2 cores after the setup. Run the same command again to continue a stopped demo.
#   scripts/demo.sh [OUT]      OUT: folder of the runs, default runs/demo
#   DIMRED_SEED=2              trains with another seed
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [[ ${1:-} == -* || $# -gt 1 ]]; then
  echo "demo: takes one folder for the runs, received $*" >&2
  exit 2
fi
out=$(realpath -m "${1:-$root/runs/demo}")
seed=${DIMRED_SEED:-1}
cd "$root"

begin=$SECONDS
scripts/setup.sh
ready=$SECONDS

dimred=build/bin/dimred
recipes=experiments/recipes
epochs=$(sed -n 's/^epochs = //p' $recipes/fashion_demo.toml)
step() { printf '\n== %s\n' "$*"; }
mkdir -p "$out"

step "Stage 1: $epochs epochs of a longer schedule, two snapshots an epoch"
$dimred stage1 --config $recipes/fashion_demo.toml --seed "$seed" --output "$out/stage1"

step "PCA: snapshots -> 32 components"
if [ -e "$out/pca_mat.npy" ]; then
  echo "reusing $out/pca_mat.npy"
else
  $dimred pca --snapshots "$out/stage1/snapshots" --components 32 --output "$out/pca_mat.npy"
fi

step "Stage 2: 2 epochs in the subspace"
$dimred stage2 --config $recipes/fashion_stage2.toml --checkpoint "$out/stage1" --pca_mat "$out/pca_mat.npy" \
  --seed "$seed" --output "$out/stage2"

onward=(--config "$recipes/fashion_demo.toml" --seed "$seed" --resume_from "$out/stage1"
  --epochs "$((epochs + 2))" --snapshots_per_epoch 0)
step "Baseline: the same schedule continued for 2 epochs"
$dimred stage1 "${onward[@]}" --output "$out/continued"
step "Baseline: the learning rate annealed to zero over the same 2 epochs"
$dimred stage1 "${onward[@]}" --anneal_from_epoch "$epochs" --output "$out/annealed"

step "Result"
.venv/bin/python experiments/report.py "$out"/{stage1,stage2,continued,annealed} --output "$out/report.html"
printf '\nreport: %s\nsetup %d s, demo %d s\n' "$out/report.html" $((ready - begin)) $((SECONDS - ready))
