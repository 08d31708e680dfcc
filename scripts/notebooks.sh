#!/usr/bin/env bash
# Opens experiments/notebooks in JupyterLab on the runs of the demo or of another folder. Installs what they need into .venv-notebooks
# (some 500 MB): no build, no torch, no packages of tests. The first line with http is the page; Ctrl-C ends it.
#   scripts/notebooks.sh [RUNS] [OPTION...]   default: runs/demo, which scripts/demo.sh makes; options of jupyter lab, as --no-browser
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  '' | -*) runs=runs/demo ;;
  *) runs=$1; shift ;;
esac
if [ ! -d "$runs" ]; then
  echo "notebooks: no folder of runs at $runs: scripts/demo.sh makes runs/demo, scripts/notebooks.sh RUNS names another" >&2
  exit 2
fi
stamp=.venv-notebooks/.requirements-notebooks
if ! cmp -s requirements/notebooks.txt "$stamp"; then
  echo "notebooks: installing JupyterLab and matplotlib into .venv-notebooks"
  [ -x .venv-notebooks/bin/python ] || python3 -m venv .venv-notebooks
  .venv-notebooks/bin/python -m pip install -q --disable-pip-version-check --no-compile -r requirements/notebooks.txt
  cp requirements/notebooks.txt "$stamp"
fi
[ "$(id -u)" -ne 0 ] || set -- --allow-root "$@"
DIMRED_RUNS=$(realpath "$runs") PYTHONPATH=$PWD/python exec .venv-notebooks/bin/python -m jupyterlab --notebook-dir experiments/notebooks "$@"
