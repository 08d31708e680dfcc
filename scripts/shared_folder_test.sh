#!/usr/bin/env bash
# Ranks on two hosts that share a folder, as a table: the hosts are mount namespaces of this machine with a FUSE mount each, whose
# cache writes back (libfuse's example passthrough_ll), of one folder. Needs root, /dev/fuse and a finished build; what cannot be
# tried is skipped with a line that says why.
#   scripts/shared_folder_test.sh [--record FILE]
#   scripts/shared_folder_test.sh --install        Debian's fuse3 and libfuse3-dev
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --install ]; then
  run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
  run apt-get update -q
  exec env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends fuse3 libfuse3-dev pkg-config gcc
fi
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build shared_folder_test "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
PYTHONPATH=tests exec "${DIMRED_PYTHON:-.venv/bin/python}" tests/shared_folder.py --build "${DIMRED_BUILD:-build}" "$@"
