#!/usr/bin/env bash
# Stage 1: conventional training with snapshots.  scripts/run_stage_1.sh DATA [--ranks R] [options of dimred stage1]
# DATA is a folder, list, pattern or URL of images, or "default" for Debian's Fashion-MNIST.
# Stage 1 trains on R ranks of this machine. Without --ranks it trains on one rank for each CUDA device, or on one rank without a device.
# The run folder is runs/stage1 unless --output or a --config gives another folder.
# Unless --total_epochs is given, a new run stops at 70 of 90 parts of its schedule, where the learning rate is still high.
set -euo pipefail
if [ $# -lt 1 ]; then
  echo "usage: scripts/run_stage_1.sh DATA [--ranks R] [options]   (options: dimred stage1 --help all)" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/local_ranks.sh
. "$root/scripts/local_ranks.sh"
data=()
[ "$1" = default ] || data=(--data "$1")
shift
output=(--output runs/stage1)
for option in "$@"; do case $option in --output | --output=* | --config | --config=*) output=() ;; esac; done
# shellcheck source=scripts/needs_build.sh
. "$root/scripts/needs_build.sh"
needs_build run_stage_1 "$root/build/bin/dimred"
said=$("$root/.venv/bin/python" "$root/scripts/schedule_length.py" "$root/build/bin/dimred" "${data[@]}" "${output[@]}" "$@")
{ read -r total; read -r line; } <<<"$said" || true
[ -z "$line" ] || echo "$line"
length=()
[ -z "$total" ] || length=(--total_epochs "$total")
start stage1 "${data[@]}" "${output[@]}" "$@" "${length[@]}"
