#!/usr/bin/env bash
# Opens experiments/notebooks in JupyterLab with the runs of the demo or of another folder. The first use installs the notebooks' packages
# into .venv-notebooks (about 500 MB). The notebooks need no build, no torch and no packages of tests. The first line with http is the
# address of the page. Ctrl-C ends JupyterLab.
#   scripts/notebooks.sh [RUNS] [OPTION...]   RUNS: default runs/demo, which scripts/demo.sh makes; OPTION: of jupyter lab, such as --no-browser
set -euo pipefail
case "${1:-}" in
  '' | -*) named=runs/demo runs=runs/demo ;;
  *) named=$1 runs=$(realpath -m "$1"); shift ;;
esac
cd "$(dirname "$0")/.."
if [ ! -d "$runs" ]; then
  echo "notebooks: needs a folder of runs, received $named; scripts/demo.sh makes runs/demo, scripts/notebooks.sh RUNS opens another" >&2
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
