#!/usr/bin/env bash
# From a finished build, a folder that runs elsewhere, and FOLDER.tar.xz of it (at most 48 MB): for a machine with a
# driver, Python 3.12 with torch 2.11.0+cu130 and no package manager. There: gpu_check.sh (docs/how-to/check_a_gpu.md).
#   scripts/bundle.sh [FOLDER] [--cifar10 FOLDER] [--fashion FOLDER] [--no-data] [--no-archive]
#   FOLDER     default runs/bundle; an earlier bundle there is replaced
#   --cifar10  CIFAR-10 as class folders of images in train/ and test/, or its binary files: FOLDER-cifar10.tar.xz is made, too
#   --fashion  default: Debian's dataset-fashion-mnist
#   DIMRED_BUILD     the build, default build
#   DIMRED_PYTHON    the Python whose torch it was linked with, default .venv's
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/needs_build.sh
. "$root"/scripts/needs_build.sh
needs_build bundle "${DIMRED_PYTHON:-$root/.venv/bin/python}"
exec "${DIMRED_PYTHON:-$root/.venv/bin/python}" "$root/scripts/bundle/make.py" "$@"
