#!/usr/bin/env bash
# Stage 1: conventional training with snapshots.  scripts/run_stage_1.sh DATA [options of dimred stage1]
# DATA is a folder with the four IDX files, or "default" for Debian's Fashion-MNIST.
# The run folder is runs/stage1 unless --output or a --config says another.
set -euo pipefail
if [ $# -lt 1 ]; then
  echo "usage: scripts/run_stage_1.sh DATA [options]   (options: dimred stage1 --help all)" >&2
  exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
data=()
[ "$1" = default ] || data=(--data "$1")
shift
output=(--output runs/stage1)
for option in "$@"; do case $option in --output | --output=* | --config | --config=*) output=() ;; esac; done
exec "$root/build/bin/dimred" stage1 "${data[@]}" "${output[@]}" "$@"
