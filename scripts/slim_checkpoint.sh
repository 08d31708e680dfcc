#!/usr/bin/env bash
# Converts a checkpoint of TF-Slim's ResNet v1, such as MoXing's resnet_v1_50.ckpt, to weights that dimred reads
# (docs/how-to/start_from_other_weights.md).
#   scripts/slim_checkpoint.sh CKPT OUT.safetensors    CKPT: one file, or the common beginning of the files .index and .data-*
#   scripts/slim_checkpoint.sh --setup                 only makes the environment
# The first use installs TensorFlow into an environment of its own, .venv-tensorflow (1.5 GB from PyPI).
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
