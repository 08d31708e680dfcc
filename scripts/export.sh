#!/usr/bin/env bash
# Adds a state_dict, TorchScript and ONNX to what `dimred export` wrote, each checked by its own reader.
#   scripts/export.sh FOLDER, e.g. runs/mine/export/1
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
exec "$root/.venv/bin/python" "$root/experiments/export.py" "$@"
