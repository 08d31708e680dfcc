#!/usr/bin/env bash
# A checkpoint of TF-Slim's ResNet v1, as MoXing's resnet_v1_50.ckpt is one, as weights that dimred reads (docs/how-to/start_from_other_weights.md).
#   scripts/slim_checkpoint.sh CKPT OUT.safetensors    CKPT: one file, or what .index and .data-* begin with
#   scripts/slim_checkpoint.sh --setup                 only makes the environment
# TensorFlow is in an environment of its own, .venv-tensorflow, made on first use: 1.5 GB from PyPI.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv-tensorflow
# Before the download: experiments/slim_checkpoint.py needs TensorFlow only to read CKPT.
[ "${1:-}" = --setup ] || PYTHONDONTWRITEBYTECODE=1 python3 "$root/experiments/slim_checkpoint.py" --check "$@"
if ! cmp -s "$root/requirements/tensorflow.txt" "$venv/.requirements"; then
  echo "slim_checkpoint: makes .venv-tensorflow (1.5 GB from PyPI)" >&2
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile -r "$root/requirements/tensorflow.txt"
  cp "$root/requirements/tensorflow.txt" "$venv/.requirements"
fi
[ "${1:-}" != --setup ] || exit 0
exec "$venv/bin/python" "$root/experiments/slim_checkpoint.py" "$@"
