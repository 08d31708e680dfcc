#!/usr/bin/env bash
# Adds a state_dict, TorchScript and ONNX to a folder that `dimred export` wrote. Torch and onnxruntime check the new files.
#   scripts/export.sh FOLDER, e.g. runs/mine/export/1
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/needs_build.sh
. "$root"/scripts/needs_build.sh
needs_build export "$root/.venv/bin/python"
exec "$root/.venv/bin/python" "$root/experiments/export.py" "$@"
