#!/usr/bin/env bash
# Packs a finished build into a folder that runs on another machine, and into FOLDER.tar.xz (at most 48 MB). The other machine needs
# a CUDA driver and Python 3.12 with torch 2.11.0+cu130, but no package manager. Start gpu_check.sh there (docs/how-to/check_a_gpu.md).
#   scripts/bundle.sh [FOLDER] [--cifar10 FOLDER] [--fashion FOLDER] [--no-data] [--no-archive]
#   FOLDER     default runs/bundle; an earlier bundle there is replaced
#   --cifar10  CIFAR-10 as class folders of images in train/ and test/, or as binary files; writes FOLDER-cifar10.tar.xz, too
#   --fashion  default: Debian's dataset-fashion-mnist
#   DIMRED_BUILD     the build, default build
#   DIMRED_PYTHON    the Python whose torch the build was linked with, default .venv's
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/needs_build.sh
. "$root"/scripts/needs_build.sh
needs_build bundle "${DIMRED_PYTHON:-$root/.venv/bin/python}"
exec "${DIMRED_PYTHON:-$root/.venv/bin/python}" "$root/scripts/bundle/make.py" "$@"
