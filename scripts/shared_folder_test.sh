#!/usr/bin/env bash
# Tests ranks on two hosts that share a folder, and prints a table. The hosts are mount namespaces of this machine. Each host mounts the
# same folder by FUSE with a write-back cache (libfuse's example passthrough_ll). The script needs root, /dev/fuse and a finished build.
# A test that cannot run is skipped, and a line says why.
#   scripts/shared_folder_test.sh [--record FILE]
#   scripts/shared_folder_test.sh --install        Debian's fuse3 and libfuse3-dev
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --install ]; then
  run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
  run apt-get update -q
  run env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends fuse3 libfuse3-dev pkg-config gcc
  exit
fi
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build shared_folder_test "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
PYTHONPATH=tests exec "${DIMRED_PYTHON:-.venv/bin/python}" tests/shared_folder.py --build "${DIMRED_BUILD:-build}" "$@"
