# shellcheck shell=sh disable=SC2034
# Sourced by gpu_check.sh and gpu_profile.sh: sets $sources and $python, of a repository or of a bundle.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -f "$here/bundle.json" ]; then
  sources=$here/python
  python=${DIMRED_PYTHON:-python3}
  "$python" "$sources/scripts/bundle/torch_libraries.py" "$here" >/dev/null
  export PYTHONPATH="$sources/packages${PYTHONPATH:+:$PYTHONPATH}" # pytest
else
  sources=$(dirname "$here")
  python=${DIMRED_PYTHON:-$sources/.venv/bin/python}
fi
