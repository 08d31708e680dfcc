#!/usr/bin/env bash
# Tests the job files of scripts/cluster/ under real launchers, and prints a table: torchrun on two hosts, mpirun and Slurm, on 1, 2 and
# 4 ranks. Then hosts die under torchrun, a node dies during a comparison on Slurm, and Slurm jobs are requeued, preempted, out of time
# or on a node that dies. The hosts are network namespaces of this machine, so the script needs root. If a launcher is not installed, its
# tests are skipped, and a line says how to install it. The script needs a finished build.
#   scripts/cluster_test.sh [--short] [--only TEXT] [--record FILE]     --short: a minute, the launchers alone on 1 and 4 ranks
#   scripts/cluster_test.sh --install                                   Debian's slurm-wlm, munge and openmpi-bin; Kubernetes' schemas
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --install ]; then
  run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
  run apt-get update -q
  # Debian would start the daemons of this machine; the tests start their own.
  run env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends slurm-wlm munge openmpi-bin iproute2
  python3 -m venv .cache/cluster
  exec .cache/cluster/bin/pip install --quiet -r requirements/cluster.txt
fi
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build cluster_test "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
PYTHONPATH=tests exec "${DIMRED_PYTHON:-.venv/bin/python}" -m cluster --build "${DIMRED_BUILD:-build}" "$@"
